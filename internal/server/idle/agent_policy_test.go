// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

func startAgent() *server {
	s := start(d)
	s.IsAgent = true
	return s
}

// draws is something on the terminal.
func (s *server) draws() { s.used.Marks.Written = int64(s.at() / time.Second) }

// The work of its servers counts, and so does all that it draws.
func TestWhenAnAgentIsIdle(t *testing.T) {
	for name, c := range map[string]struct {
		each func(*server)
		idle bool
	}{
		"nothing":              {func(*server) {}, true},
		"its own timers":       {func(s *server) { s.used.Own += 1600 * time.Millisecond }, true},
		"computes":             {func(s *server) { s.used.Own += 7 * time.Second }, false},
		"draws":                {(*server).draws, false},
		"is typed at":          {func(s *server) { s.used.Marks.Read++ }, false},
		"starts processes":     {func(s *server) { s.used.Marks.Members++ }, false},
		"and waits for them":   {func(s *server) { s.used.Marks.Reaped++ }, false},
		"takes locks":          {func(s *server) { s.used.Marks.Locks++ }, false},
		"its servers compute":  {func(s *server) { s.uses(Usage{CPU: 200 * time.Millisecond}) }, false},
		"its servers are used": {func(s *server) { s.uses(Usage{Read: 87}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := startAgent()
			s.until(2*d, func() { c.each(s) })
			if !c.idle {
				s.neverFreezes(t)
				return
			}
			s.freezesFirst(t, d)
		})
	}
}

// A connection at one look, while the terminal is silent, has D begin once more: between two looks there may be
// another one. It is noted only when the terminal was silent for D.
func TestTiesOfAnAgent(t *testing.T) {
	s := startAgent()
	tied := func() {
		s.used.Tied = ""
		if s.at() == 8*time.Minute {
			s.used.Tied = tcpSocket
		}
	}
	s.until(2*d, tied)
	s.freezesFirst(t, 8*time.Minute+d)
	if s.Note != "" {
		t.Errorf("note %q about an agent in a turn", s.Note)
	}
	s = startAgent()
	s.until(d+2*time.Minute, func() { s.used.Tied = "it runs sleep" })
	if want := "not idle: it runs sleep"; s.Note != want {
		t.Errorf("note %q, want %q", s.Note, want)
	}
	s.neverFreezes(t)
}

// The second look notices what a look before the freeze could not.
func TestSecondLookAtAnAgent(t *testing.T) {
	for name, meets := range map[string]func(*server){
		"a key was read":        func(s *server) { s.used.Marks.Read++ },
		"a program was started": func(s *server) { s.used.Tied = "it runs sleep" },
		"a lock was taken":      func(s *server) { s.used.Marks.Locks++ },
	} {
		t.Run(name, func(t *testing.T) {
			s := startAgent()
			s.meets = func() { meets(s) }
			s.until(d, nil)
			s.neverFreezes(t)
			if s.undone != 1 {
				t.Errorf("thawed %d times after the second look", s.undone)
			}
		})
	}
}

// After a key an agent may work for as long as it likes, and after a breath in which it has begun to.
func TestWakeOfAnAgent(t *testing.T) {
	s := startAgent()
	s.until(d, nil)
	s.Thawed(s.now, false)
	s.until(2*d, nil)
	if len(s.freezes) != 1 {
		t.Errorf("frozen at %v, within D of a key", s.freezes)
	}
	for name, c := range map[string]struct {
		works func(*server)
		idle  bool
	}{
		"nothing": {func(*server) {}, true},
		"draws":   {(*server).draws, false},
		"asks":    {func(s *server) { s.used.Tied = tcpSocket }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := startAgent()
			s.until(d, nil)
			s.until(d+breathEach, nil)
			c.works(s)
			s.until(d+breathEach+breathFor, nil)
			if s.breaths != 1 || s.frozen != c.idle || s.Used == c.idle {
				t.Errorf("%d breaths, frozen: %v, reclaim: %v", s.breaths, s.frozen, s.Used)
			}
		})
	}
}

// A note names the script, for there may be many processes of the same interpreter.
func TestUnknownScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), "tool.pl")
	if err := os.WriteFile(script, []byte("sleep 1000"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("perl", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for len(proc.Arguments(cmd.Process.Pid, argumentsMost)) < 2 { // the kernel sets them late in execve(2)
		runtime.Gosched()
	}
	const want = "it runs perl (tool), which is not known as a server"
	if got := (&member{pid: cmd.Process.Pid}).unknown(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
