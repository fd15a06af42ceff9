// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A server is one of the zoo's, or a probe, and what is known of its main process.
type server struct {
	command   []string      // without what it registers with
	obeys     bool          // it is a probe, which exits and dies as it is told
	stays     bool          // when its stdin ends
	deaf      []unix.Signal // what it does not die of
	exits     bool          // it exits with 0 when asked
	unanimous bool          // no member outlives being asked
}

var asking = []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP}

// inmates are those of the zoo's modes that are cheap enough for thousands of cycles.
var inmates = map[string]server{
	"plain":        {unanimous: true},
	"ignore-eof":   {unanimous: true, stays: true},
	"ignore-term":  {deaf: asking[:1]},
	"ignore-both":  {deaf: asking, stays: true},
	"fork-on-term": {deaf: asking, stays: true},
	"setsid":       {}, "double-fork": {}, "vfork": {}, "dead-leader": {}, "no-env": {}, "no-fds": {},
	"hold-stdout": {}, "stopped": {}, "traced": {},
}

var modes = sortedKeys(inmates)

func sortedKeys(m map[string]server) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys) // what is drawn follows from the seed
	return keys
}

func (p *Plan) drawServer(r *rand.Rand, obeys bool) server {
	if obeys || r.IntN(4) == 0 {
		return p.drawProbe(r)
	}
	mode := modes[r.IntN(len(modes))]
	s := inmates[mode]
	s.command = []string{p.site.Programs.Zoo, mode}
	return s
}

func (p *Plan) drawProbe(r *rand.Rand) server {
	s := server{obeys: true, command: []string{p.Probe, "--members", strconv.Itoa(r.IntN(4))}}
	if r.IntN(2) == 0 {
		s.command = append(s.command, "--ends")
		s.exits, s.unanimous = true, true
		return s
	}
	s.deaf = asking
	return s
}

// line is its command, run contained. A grace is short where it will be used up, and long where
// the status depends on a process that must get the time to end.
func (s server) line(p *Plan, name, register string) []string {
	eof, term := "10s", "100ms"
	if s.stays {
		eof = "100ms"
	}
	if s.unanimous {
		term = "10s"
	}
	line := []string{p.Program, "run", "--backend", p.Backend.Name, "--name", name,
		"--eof-grace", eof, "--term-grace", term, "--", s.command[0], "--register", register}
	return append(line, s.command[1:]...)
}

// asked foretells the status after a signal. A signal that kills has decided the status when
// it is sent, so that a SIGKILL soon after does not change it.
func (s server) asked(sig unix.Signal) string {
	switch {
	case s.exits:
		return "exit 0"
	case slices.Contains(s.deaf, sig):
		return killed
	}
	return fmt.Sprintf("signal %d", sig)
}

// closed foretells the status after the end of stdin.
func (s server) closed() string {
	if s.stays {
		return s.asked(unix.SIGTERM)
	}
	return "exit 0"
}

const killed = "signal 9"
