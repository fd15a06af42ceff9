//go:build linux

package scope

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/journal"
	"github.com/mcpscope/mcpscope/proc"
)

// Report is the line written when a server has ended. Fields are only ever added.
type Report struct {
	Version         int         `json:"version"`
	ID              string      `json:"id"`
	Name            string      `json:"name"`
	Backend         Backend     `json:"backend"`
	Client          clientFacts `json:"client"`
	Cause           Cause       `json:"cause"`
	Signal          string      `json:"signal,omitempty"` // for the cause "signal"
	Started         time.Time   `json:"started"`
	Ended           time.Time   `json:"ended"`
	Seconds         float64     `json:"seconds"`
	ExitStatus      *int        `json:"exit_status,omitempty"`
	ExitSignal      string      `json:"exit_signal,omitempty"`
	CPUSeconds      *float64    `json:"cpu_seconds,omitempty"`
	MemoryPeakBytes *uint64     `json:"memory_peak_bytes,omitempty"`
	// Limits are what the payload's files said that were set.
	Limits      map[string]string   `json:"limits,omitempty"`
	OutOfMemory *OutOfMemory        `json:"out_of_memory,omitempty"`
	PIDsRefused *PIDsRefused        `json:"pids_refused,omitempty"`
	Pressure    map[string]Pressure `json:"pressure,omitempty"`
	Killed      []Killed            `json:"killed,omitempty"`
	KilledTotal int                 `json:"killed_total"`
	Stuck       []string            `json:"stuck,omitempty"`
	Notes       []string            `json:"notes,omitempty"`
}

// Killed is a member that did not end when asked. Facts are observed, never
// guessed.
type Killed struct {
	PID     int      `json:"pid"`
	Name    string   `json:"name"`
	Command string   `json:"command,omitempty"`
	Facts   []string `json:"facts,omitempty"`
}

const (
	inspectMost   = 64                     // members described one by one, for a report
	inspectFew    = lastWordMost           // for the journal alone: it is to cost no end anything
	inspectWithin = 200 * time.Millisecond // a command line can be backed by a file system that hangs
	reportBound   = time.Second            // for the write of the report
	commandMost   = 256                    // bytes of a command line
	lastWordMost  = 16                     // members named to the launcher
)

// described: somebody wants to know of each member that had to be killed.
func (s *supervisor) described() bool { return s.config.Report >= 0 || s.config.Verbose }

// inspected are members that had to be killed.
type inspected struct {
	all   []Killed
	total int
	late  bool // not all could be described in time
}

// inspect describes the members that are about to be killed, while they are frozen. It runs beside the
// supervisor's loop, so it changes nothing.
func (s *supervisor) inspect() inspected {
	pids, _ := s.group.members().Members() // a partial list is better than none
	most := inspectFew
	if s.described() {
		most = inspectMost
	}
	found := make(chan []Killed, 1)
	go func() {
		var all []Killed
		for _, pid := range pids[:min(len(pids), most)] {
			all = append(all, s.observe(pid))
		}
		found <- all
	}()
	select {
	case all := <-found:
		return inspected{all: all, total: len(pids)}
	case <-time.After(inspectWithin):
		return inspected{total: len(pids), late: true}
	}
}

// tookDown adds what a ladder had to kill.
func (s *supervisor) tookDown(seen inspected) {
	s.killed, s.killedTotal = append(s.killed, seen.all...), s.killedTotal+seen.total
	if seen.late {
		s.note("the members that had to be killed could not be described in time")
	}
}

// observe describes one process. What can't be read is left out.
func (s *supervisor) observe(pid int) Killed {
	k := Killed{PID: pid}
	st, err := proc.ReadStat(pid)
	if err != nil {
		return k
	}
	k.Name = st.Comm
	if s.described() {
		k.Command, _ = proc.Cmdline(pid, commandMost)
	}
	fact := func(is bool, what string) {
		if is {
			k.Facts = append(k.Facts, what)
		}
	}
	session, _ := unix.Getsid(0)
	fact(st.Session != session, "new session")
	fact(pid != s.main && st.PPID == os.Getpid(), "re-parented")
	fact(st.State == 'T', "stopped")
	status, err := proc.ReadStatus(pid)
	if err == nil {
		const term = 1 << (unix.SIGTERM - 1)
		fact(status.TracerPid != 0, "traced")
		fact(status.SigIgn&term != 0, "SIGTERM ignored")
		fact(status.SigBlk&term != 0, "SIGTERM blocked")
	}
	fact(s.group.elsewhere(pid), "other cgroup")
	for _, ns := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		fact(otherNamespace(pid, ns), "other "+ns+" namespace")
	}
	return k
}

func otherNamespace(pid int, ns string) bool {
	theirs, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/" + ns)
	if err != nil {
		return false
	}
	own, err := os.Readlink("/proc/self/ns/" + ns)
	return err == nil && own != theirs
}

func (s *supervisor) note(text string) {
	if !slices.Contains(s.notes, text) {
		s.notes = append(s.notes, text)
	}
}

func (k Killed) String() string {
	text := fmt.Sprintf("process %d (%s)", k.PID, k.Name)
	if len(k.Facts) > 0 {
		text += ": " + strings.Join(k.Facts, ", ")
	}
	return text
}

// notesForPeople are the notes, and a few of those who had to be killed.
func (s *supervisor) notesForPeople() []string {
	notes := slices.Clone(s.notes)
	for _, k := range s.killed[:min(len(s.killed), lastWordMost)] {
		notes = append(notes, "killed "+k.String())
	}
	if total := max(s.killedTotal, len(s.killed)); total > lastWordMost {
		notes = append(notes, fmt.Sprintf("killed %d processes in all", total))
	}
	return notes
}

// report writes the line, if one was asked for, and tells the journal.
func (s *supervisor) report() {
	wanted, journaled := s.config.Report >= 0, journal.Exists()
	if !wanted && !journaled {
		return
	}
	r := newReport(s.group.ident(), s.config.Name, s.config.Client, s.backend, s.config.Started, s.course.cause)
	if s.course.cause == signalled {
		r.Signal = unix.SignalName(s.course.signal)
	}
	if s.exited {
		r.setStatus(s.status)
	}
	cpu := s.group.members().CPU().Seconds()
	r.CPUSeconds = &cpu
	r.MemoryPeakBytes = s.memoryPeak()
	s.addLimits(r)
	r.Killed, r.KilledTotal, r.Stuck, r.Notes = s.killed, max(s.killedTotal, len(s.killed)), s.last().Stuck, s.notes
	if journaled {
		s.tellEnd(r)
	}
	if wanted {
		r.write(s.config.Report)
	}
}

func newReport(id, name string, c clientFacts, b Backend, nanos int64, why Cause) *Report {
	now := time.Now()
	started := time.Unix(0, nanos)
	return &Report{
		Version: protocolVersion, ID: id, Name: name, Backend: b, Client: c, Cause: why,
		Started: started.UTC(), Ended: now.UTC(), Seconds: now.Sub(started).Seconds(),
	}
}

func (r *Report) setStatus(ws unix.WaitStatus) {
	if ws.Signaled() {
		r.ExitSignal = unix.SignalName(ws.Signal())
		return
	}
	status := ws.ExitStatus()
	r.ExitStatus = &status
}

// write makes one write(2), so that lines of several servers in one file don't mix. It
// waits for a pipe that nobody empties for a bounded time: the end must not depend on
// who reads of it.
func (r *Report) write(fd int) {
	b, err := json.Marshal(r)
	if err != nil {
		return // nothing in it can fail to encode
	}
	written := make(chan struct{})
	go func() {
		_, _ = unix.Write(fd, append(b, '\n')) // nobody is left to tell
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(reportBound):
	}
}
