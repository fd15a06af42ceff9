//go:build linux

package scope

import (
	"fmt"

	"github.com/mcpscope/mcpscope/proc"
)

// identity is a process for as long as the machine runs: the pid alone would be
// reused.
type identity struct {
	PID   int
	Start uint64 // clock ticks after boot
}

func identify(pid int) (identity, error) {
	st, err := proc.ReadStat(pid)
	if err != nil {
		return identity{}, err
	}
	return identity{PID: pid, Start: st.StartTime}, nil
}

// alive tells whether that very process runs. In another pid namespace the numbers
// mean nothing, which gives false; hence no one is killed for this answer alone.
func (i identity) alive() bool {
	st, err := proc.ReadStat(i.PID)
	return err == nil && st.StartTime == i.Start && st.State != 'Z'
}

func (i identity) String() string { return fmt.Sprintf("%d %d", i.PID, i.Start) }

func parseIdentity(s string) (identity, bool) {
	var i identity
	n, err := fmt.Sscanf(s, "%d %d", &i.PID, &i.Start)
	return i, err == nil && n == 2
}
