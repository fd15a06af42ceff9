// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/helper"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Report reports the end of a server whose launcher needs its main for that, and returns its configuration
// and how it ended.
func Report(e *guard.Ended) (*protocol.Config, helper.Outcome, error) {
	if systemd.JournalExists() { // it stores the command line of each process that writes to it
		HideArguments(2)
	}
	isPlan := func(v string) bool { return strings.HasPrefix(v, guard.PlanVariable) }
	env := slices.DeleteFunc(os.Environ(), isPlan)
	s, err := helper.LoadServer(e.Page, e.Guard, e.Payload, env)
	if err != nil {
		return protocol.NewConfig(), helper.Outcome{}, err
	}
	if e.End == guard.NothingLeft || e.End == guard.NotEnded {
		s.EndInLauncher()
	}
	if e.End != guard.MembersStuck { // otherwise a helper waits for them
		e.Dismiss(int64(policy.ReactWithin))
	}
	o, err := s.Outcome()
	return s.Config, o, err
}

// HideArguments overwrites the command line of this process from that argument on: the strings of os.Args are
// that memory.
func HideArguments(first int) {
	for _, text := range os.Args[min(first, len(os.Args)):] {
		clear(unsafe.Slice(unsafe.StringData(text), len(text)))
	}
}
