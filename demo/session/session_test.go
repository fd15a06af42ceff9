// SPDX-License-Identifier: Apache-2.0

//go:build linux

package session

import (
	"os/exec"
	"testing"
	"time"
)

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
	script := `sleep 1000 & setsid sleep 1000 & echo '{"tools":3}'; wait`
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
