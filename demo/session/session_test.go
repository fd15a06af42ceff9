// SPDX-License-Identifier: Apache-2.0

//go:build linux

package session

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	line := "42 (a b) (c) S 7 42 42 0 -1 4194560 105 0 0 0 0 0 0 0 20 0 1 0 987654 2461696 200"
	got, err := parseStat(42, line)
	if want := (stat{identity{42, "987654"}, 7}); got != want || err != nil {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := parseStat(42, "42 (sh) S 7"); err == nil {
		t.Error("a line of four fields was accepted")
	}
}

func TestUnifiedPath(t *testing.T) {
	for cgroups, want := range map[string]string{
		"0::/a/b\n":                  "/a/b",
		"4:memory:/x\n0::/a\n":       "/a",
		"1:name=systemd:/0::/x\n":    "",
		"0::/gone/payload (deleted)": "/gone/payload (deleted)",
	} {
		if got := unifiedPath(cgroups); got != want {
			t.Errorf("%q: got %q, want %q", cgroups, got, want)
		}
	}
}

func TestProcessIsNamedWithoutDirectories(t *testing.T) {
	p := Process{Args: []string{"/usr/bin/node", "/a/node_modules/.bin/mcp-server-memory", "."}}
	if got, want := p.String(), "node mcp-server-memory ."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The client is a shell here: what matters is who is found, and that an end
// reaches them all.
func TestEveryProcessIsFoundAndEnded(t *testing.T) {
	mark := "session-test-mark"
	stray := exec.Command("sh", "-c", "sleep 1000 & echo; wait", "sh", mark)
	out, err := stray.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stray.Process.Kill() // dead already, unless the test failed
		_ = stray.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s := start(t, mark, `sleep 1000 & setsid sleep 1000 & echo '{"tools":3}'; wait`)

	const members = 4 // two of the client's, the stray and its child
	if len(s.Seen()) != members {
		t.Errorf("saw %v", s.Seen())
	}
	if err := s.Kill(); err != nil {
		t.Error(err)
	}
	if left, err := s.Left(time.Now()); len(left) != members || err != nil {
		t.Errorf("left %v, %v; want all", left, err)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

func TestClientThatSaysNothing(t *testing.T) {
	s, err := Start(Config{Client: []string{"sh", "-c", "exit 3"}, Server: []string{"true"}, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	if hello, err := s.Hello(); err == nil {
		t.Errorf("got %+v", hello)
	}
	if err := s.End(); err == nil {
		t.Error("a client that exited by itself was taken for killed")
	}
}

func start(t *testing.T, mark, script string) *Session {
	t.Helper()
	s, err := Start(Config{Client: []string{"sh", "-c", script}, Server: []string{"true"}, Mark: mark})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.End() }) // for a test that stopped early
	if hello, err := s.Hello(); hello.Tools != 3 || err != nil {
		t.Fatalf("got %+v, %v", hello, err)
	}
	if err := s.Observe(); err != nil {
		t.Fatal(err)
	}
	return s
}
