// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func TestMain(m *testing.M) {
	if os.Getenv("INHERIT_PRINT") != "" {
		limit, err := NoFile()
		fmt.Println(limit.Cur, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The soft limit is the one that we were started with, not the one that package
// syscall raised it to.
func TestNoFile(t *testing.T) {
	for _, limit := range []string{"77", "1024"} {
		cmd := exec.Command("/bin/sh", "-c", `ulimit -S -n "$0"; exec "$1"`, limit, os.Args[0])
		cmd.Env = append(os.Environ(), "INHERIT_PRINT=1")
		out, err := cmd.Output()
		if err != nil || string(out) != limit+" <nil>\n" {
			t.Errorf("started with a soft limit of %s, found %q (%v)", limit, out, err)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := OneLine("a\nb\x1b[31m\u0085ü\u202eb\u200bc\xff"); got != "a?b?[31m?ü?b?c\ufffd" {
		t.Errorf("%q", got)
	}
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	bin := filepath.Join(dir, "bin")
	later := filepath.Join(dir, "later")
	for _, d := range []string{empty, bin, later, filepath.Join(bin, "folder")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, mode := range map[string]os.FileMode{"bin/good": 0o755, "bin/plain": 0o644, "bin/both": 0o644, "later/both": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(bin)
	path := empty + ":/nonexistent:" + bin + ":" + later
	for _, c := range []struct {
		command, path, want string
		errno               unix.Errno
	}{
		{"good", path, bin + "/good", 0},
		{"good", "", "./good", 0},
		{"both", path, later + "/both", 0}, // not executable here, so the search goes on
		{"plain", path, "", unix.EACCES},
		{"folder", path, "", unix.EISDIR},
		{"missing", path, "", unix.ENOENT},
		{"", path, "", unix.ENOENT},
		{bin, path, "", unix.EISDIR},
		{"./good/x", path, "", unix.ENOTDIR},
	} {
		t.Setenv("PATH", c.path)
		if got, err := Lookup(c.command); got != c.want || !errors.Is(err, c.errno) && c.errno != 0 || (err == nil) != (c.errno == 0) {
			t.Errorf("%q in %q: %q, %v; want %q, %v", c.command, c.path, got, err, c.want, c.errno)
		}
	}
}

// Graces of any length make no bound that is over at once.
func TestLongGraces(t *testing.T) {
	long, err := ParseGrace("60000d")
	c := &protocol.Config{Facts: protocol.Facts{Policy: protocol.Policy{TermGrace: long}, Engine: "podman"}}
	if err != nil || long < 60*365*24*time.Hour || protocol.EndWithin(c) < long {
		t.Errorf("%v, %v: %v for the end", long, err, protocol.EndWithin(c))
	}
}

func TestParseGrace(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1.2s": 1200 * time.Millisecond, "500ms": 500 * time.Millisecond, "1h": time.Hour, "infinity": freeze.Forever,
		"1d": 24 * time.Hour, "2d12h": 60 * time.Hour, "0d": 0,
	} {
		if got, err := ParseGrace(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "-1s", "soon", "1e9s", "inf", "9999999999h", "1s ", "d", "1dd", "1hd", "-1d", "1d-1h", "99999999d", "1d1", "infinityd", "1 d"} {
		if got, err := ParseGrace(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
