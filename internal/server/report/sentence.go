// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/text"
)

// Sentence says for people how a server ended, and names the processes that were stopped. It has no
// arguments, which may be secrets. The names of processes may be anything.
func (r *Report) Sentence() string {
	parts := []string{fmt.Sprintf("ended after %v: %s", rounded(r.Ended.Sub(r.Started)), r.reason())}
	if r.StoppedTotal > 0 {
		parts = append(parts, r.stopped())
	}
	switch {
	case r.KilledTotal == 0:
	case r.Cause == causes.LauncherGone: // nobody was asked
		parts = append(parts, r.killed()+" killed with it")
	default:
		parts = append(parts, r.killed()+" did not exit on a signal and had to be killed")
	}
	for _, stuck := range r.Stuck {
		parts = append(parts, "could not be stopped: "+stuck)
	}
	for _, u := range r.InUse {
		parts = append(parts, u.String())
	}
	for _, k := range r.Kept {
		parts = append(parts, "kept: "+k.Name+" ("+k.ID+")")
	}
	if r.PIDsRefused > 0 {
		times := text.Counted(r.PIDsRefused, "time")
		parts = append(parts, "it could not fork "+times+", by its limit of processes")
	}
	return strings.Join(parts, "; ")
}

// reasons has the texts of the causes that need no figure.
var reasons = map[causes.Cause]string{
	causes.StdinClosed:   "its client closed stdin",
	causes.StdoutClosed:  "its client was gone (it closed stdout)",
	causes.ClientDied:    "its client died",
	causes.LauncherGone:  "mcpscope run was killed",
	causes.StopRequested: "a stop was requested",
	causes.IdleTooLong:   "its idle-timeout was over",
}

func (r *Report) reason() string {
	switch r.Cause {
	case causes.StdinClosed:
		if r.ClientEnded { // the kernel closes the descriptors of a killed client before its end is seen
			return "its client closed stdin, and has exited"
		}
	case causes.MainExited:
		return r.exited()
	case causes.Signalled:
		return "it received " + r.Signal
	case causes.MemoryExhausted:
		if r.ByOOMD {
			return "out of memory or swap, systemd-oomd killed it"
		}
		if r.SessionExhausted {
			return r.sessionExhausted()
		}
		return "out of memory" + r.memoryLimit() + ", the kernel killed all of it"
	}
	if text := reasons[r.Cause]; text != "" {
		return text
	}
	return string(r.Cause)
}

// exited returns the reason for a main process that ended by itself. Only its parent has the status: of a
// gateway's server that is the gateway.
func (r *Report) exited() string {
	switch {
	case r.ExitSignal != "":
		return "it exited by " + r.ExitSignal
	case r.ExitStatus != nil:
		return fmt.Sprintf("it exited with status %d", *r.ExitStatus)
	}
	return "its main process ended (status unknown)"
}

func (r *Report) memoryLimit() string {
	if r.MemoryMax == nil {
		return ""
	}
	return fmt.Sprintf(" (its limit is %d MB)", *r.MemoryMax>>20)
}

// sessionExhausted returns the reason for a server that had to die for others, or for itself.
func (r *Report) sessionExhausted() string {
	const text = "its session was out of memory (the limit of the agent and all its servers is %d MB), " +
		"the kernel killed all of this server"
	sentence := fmt.Sprintf(text, *r.SessionMax>>20)
	if r.MemoryPeak != nil {
		sentence += fmt.Sprintf(", which used up to %d MB", *r.MemoryPeak>>20)
	}
	return sentence
}

// stopped names the processes beside the main process. Only those that a server leaves when it exits are
// certainly left over: others may be part of it.
func (r *Report) stopped() string {
	kind := "other process"
	if r.Cause == causes.MainExited {
		kind = "left-over process"
	}
	sentence := text.Counted(r.StoppedTotal, kind) + " stopped: " + strings.Join(r.Stopped, ", ")
	if more := r.StoppedTotal - len(r.Stopped); more > 0 {
		sentence += fmt.Sprintf(" and %d more", more)
	}
	return sentence
}

func (r *Report) killed() string {
	var names []string
	for _, k := range r.Killed {
		names = append(names, k.String())
	}
	text := strings.Join(names, ", ")
	if more := r.KilledTotal - len(r.Killed); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// rounded is exact enough to be read.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
