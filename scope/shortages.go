//go:build linux

package scope

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/journal"
)

// OutOfMemory says that the kernel has killed members for lack of memory.
type OutOfMemory struct {
	Kills uint64 `json:"oom_kills"`
	// LimitBytes is nil where the limit was not the payload's, but one of a unit or slice.
	LimitBytes *uint64    `json:"memory_max_bytes,omitempty"`
	PeakBytes  *uint64    `json:"memory_peak_bytes,omitempty"`
	Biggest    []Consumer `json:"biggest,omitempty"`
}

func (s *supervisor) outOfMemory() *OutOfMemory {
	f := s.group.figures()
	if f == nil || f.oomKills() == 0 {
		return nil
	}
	o := &OutOfMemory{Kills: f.oomKills(), LimitBytes: f.memoryMax(), PeakBytes: s.memoryPeak()}
	if s.short != nil {
		o.Biggest = s.short.biggest()
	}
	return o
}

// memoryPeak is the kernel's or, before Linux 5.19, the limit where that was met.
func (s *supervisor) memoryPeak() *uint64 {
	f := s.group.figures()
	if f == nil {
		return nil
	}
	n := f.memoryPeak()
	if n == nil && f.memoryMet() {
		return f.memoryMax()
	}
	return n
}

// exitCause: where the kernel ends all of a group that has no memory any more, it has ended the
// main process too. Where it does not, who has killed that can't be told.
func (s *supervisor) exitCause(ws unix.WaitStatus) Cause {
	f := s.group.figures()
	if f == nil || !ws.Signaled() || ws.Signal() != unix.SIGKILL {
		return mainExited
	}
	if f.endsWhole() && f.oomKills() > 0 {
		return outOfMemory
	}
	return mainExited
}

// PIDsRefused says that members could not fork.
type PIDsRefused struct {
	Times uint64  `json:"times"`
	Limit *uint64 `json:"pids_max,omitempty"`
}

// addLimits tells of the limits, and what became of them.
func (s *supervisor) addLimits(r *Report) {
	f := s.group.figures()
	if f == nil {
		return
	}
	r.Limits = f.limitsNow()
	r.OutOfMemory = s.outOfMemory()
	if times, limit := f.pidsRefused(); times > 0 {
		r.PIDsRefused = &PIDsRefused{Times: times, Limit: limit}
	}
	r.Pressure = f.pressure()
}

// tellShortages tells the journal of what the server lacked.
func (r *Report) tellShortages(about subject) {
	var fields []journal.Field
	add := func(name string, n *uint64, said string) string {
		if n == nil {
			return ""
		}
		fields = append(fields, journal.Field{Name: name, Value: strconv.FormatUint(*n, 10)})
		return said + strconv.FormatUint(*n, 10)
	}
	if o := r.OutOfMemory; o != nil {
		text := "was out of memory: processes that the kernel killed" + add(FieldOOMKills, &o.Kills, ": ") +
			add(FieldMemoryMax, o.LimitBytes, ", limit ") + add(FieldMemoryPeak, o.PeakBytes, ", peak ")
		for _, c := range o.Biggest {
			fields = append(fields, journal.Field{Name: FieldBiggest, Value: c.String()})
			text += ", " + c.String()
		}
		about.tell(EventOutOfMemory, journal.Warning, text, fields...)
	}
	fields = nil
	if p := r.PIDsRefused; p != nil {
		text := "could not fork" + add(FieldRefused, &p.Times, ", times ") + add(FieldPIDsMax, p.Limit, ", limit ")
		about.tell(EventPIDsRefused, journal.Warning, text, fields...)
	}
}
