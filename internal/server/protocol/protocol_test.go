// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
)

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	empty, bin, later := filepath.Join(dir, "empty"), filepath.Join(dir, "bin"), filepath.Join(dir, "later")
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
		got, err := Lookup(c.command, c.path)
		if got != c.want || !errors.Is(err, c.errno) && c.errno != 0 || (err == nil) != (c.errno == 0) {
			t.Errorf("%q in %q: %q, %v; want %q, %v", c.command, c.path, got, err, c.want, c.errno)
		}
	}
}

// Another process of the user can have written the page of a tree.
func FuzzConfig(f *testing.F) {
	c := NewConfig()
	c.Argv, c.Notes, c.Name = []string{"a", "\xff"}, []string{"n"}, "ü"
	f.Add(Encode(c))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		var c, again Config
		if Decode(b, &c) != nil {
			return
		}
		if err := Decode(Encode(&c), &again); err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%+v came back as %+v, %v", c, again, err)
		}
	})
}

func TestConfigComesBack(t *testing.T) {
	full := &Config{}
	fill(reflect.ValueOf(full).Elem())
	full.Version = ProtocolVersion
	var again Config
	if err := Decode(Encode(full), &again); err != nil || !reflect.DeepEqual(*full, again) {
		t.Errorf("%+v came back as %+v, %v", *full, again, err)
	}
}

// fill gives every field a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-7)
	case reflect.Uint64:
		v.SetUint(1 << 60)
	default:
		panic(v.Kind())
	}
}

// Graces of any length make no bound that is over at once.
func TestLongGraces(t *testing.T) {
	long, err := ParseGrace("60000d")
	c := &Config{Facts: Facts{Policy: Policy{TermGrace: long}, Engine: "podman"}}
	if err != nil || long < 60*365*24*time.Hour || EndWithin(c) < long {
		t.Errorf("%v, %v: %v for the end", long, err, EndWithin(c))
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

// The whole ladder is over before the clients that kill after closing stdin do.
func TestDefaultsAreWithinTheClientsPatience(t *testing.T) {
	p := DefaultPolicy()
	if sum := p.EOFGrace + p.TermGrace; sum >= 3*time.Second || p.EOFGrace < time.Second {
		t.Errorf("%v and %v: rmcp kills at 3 s, and answers may take 1 s", p.EOFGrace, p.TermGrace)
	}
}
