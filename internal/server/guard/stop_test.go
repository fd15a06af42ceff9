// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/test/groups"
)

// A main process that has not got the client's signal gets that of the stop.
func TestSignalOfStop(t *testing.T) {
	for name, c := range map[string]struct {
		signals []page.Signal
		sig     unix.Signal
		mainHas bool
	}{
		"none":                 {nil, unix.SIGTERM, false},
		"passed on":            {[]page.Signal{{At: 1, Number: 2, ToMain: true}}, unix.SIGINT, true},
		"came during the stop": {[]page.Signal{{At: 1, Number: 2}}, unix.SIGINT, false},
		"the first one counts": {[]page.Signal{{At: 1, Number: 3, ToMain: true}, {At: 2, Number: 2}}, unix.SIGQUIT, true},
	} {
		on := &page.Page{}
		for _, s := range c.signals {
			on.AddSignal(s)
		}
		sig, mainHas := signalOfStop(on)
		if sig != c.sig || mainHas != c.mainHas {
			t.Errorf("%s: %v, %t, want %v, %t", name, sig, mainHas, c.sig, c.mainHas)
		}
	}
}

// A main process that has only started the server has ended well and soon.
func TestMainWasStarter(t *testing.T) {
	const second = int64(1e9)
	tag := tagOf(&[idLength]byte{'0', '0', '0', '0', 's', 't', 'r', 't'})
	var before unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: tag, Max: unix.RLIM_INFINITY}, &before); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prlimit(0, unix.RLIMIT_LOCKS, &before, nil) })
	for name, c := range map[string]struct {
		change func(*page.Page)
		at     int64
		want   bool
	}{
		"soon":              {func(*page.Page) {}, 5 * second, true},
		"late":              {func(*page.Page) {}, 15 * second, false},
		"failed":            {func(on *page.Page) { on.SetStatus(1 << 8) }, 5 * second, false},
		"crashed":           {func(on *page.Page) { on.SetStatus(11) }, 5 * second, false},
		"without pipes":     {func(on *page.Page) { on.Started.Side.Conveyed = false }, 5 * second, false},
		"with other pipes":  {func(on *page.Page) { on.Started.Side.Stdin.Ino++ }, 5 * second, false},
		"without its stdin": {func(on *page.Page) { on.Started.Side.Stdin = page.File{} }, 5 * second, false},
	} {
		on := &page.Page{}
		on.SetStatus(0)
		on.ByLauncher.StartedAt = 1
		fileOf(0, &on.Started.Side.Stdin)
		fileOf(1, &on.Started.Side.Stdout)
		on.Started.Side.Conveyed = true
		on.ByLauncher.ExitedAt = c.at
		c.change(on)
		s := &stop{page: on}
		s.members.payload = -1
		s.search = tagSearch{tag: tag, procs: -1}
		if got := s.mainWasStarter(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// People find a helper by the id of its server.
func TestNameOfAHelper(t *testing.T) {
	l := &lasting{}
	copy(l.name[:], "guard-abcdefgh")
	c := &goProcess{}
	c.nameHelper(l)
	if name := unix.ByteSliceToString(c.name[:]); name != "helper-abcdefgh" {
		t.Errorf("%q", name)
	}
}

// A helper is called for what it has to do, and no sooner again than a failure allows.
func TestNeededAt(t *testing.T) {
	const soon = 5
	for name, c := range map[string]struct {
		task    page.Tasks
		callAt  int64
		isNew   bool
		phase   decide.Phase
		retryAt int64
		want    int64
	}{
		"nothing":                   {want: 0},
		"a task":                    {task: page.End, want: 1},
		"a task, after a failure":   {task: page.End, retryAt: soon, want: soon},
		"a look":                    {callAt: 9, want: 9},
		"a look, after a failure":   {callAt: 3, retryAt: soon, want: soon},
		"a thaw before a late look": {callAt: 60, isNew: true, want: 1},
		"a thaw in a stop":          {isNew: true, phase: decide.Terminating, want: 0},
	} {
		on := &page.Page{}
		on.ByGuard.Tasks = c.task
		on.ByHelper.CallHelperAt = c.callAt
		on.ByGuard.Thaw.IsNew = c.isNew
		on.ByGuard.Stop.State.Phase = c.phase
		call := helperCall{retryAt: c.retryAt}
		if got := call.neededAt(on); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A manager may remove the group of a server that has ended before the next guard opens its files: nothing is left then.
func TestGroupThatWasRemoved(t *testing.T) {
	parent := groups.Directory(t)
	dir, err := parent.Mkdir("payload", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	payload := int32(dir.FD())
	early := members{}
	early.open(payload)
	if early.populated() {
		t.Error("an empty group has members")
	}
	if err := parent.Remove("payload"); err != nil {
		t.Fatal(err)
	}
	late := members{}
	late.open(payload)
	if early.populated() || late.populated() {
		t.Errorf("a group that was removed has members, for a guard from before: %t, and one from later: %t",
			early.populated(), late.populated())
	}
}
