// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A gateway's stderr is its own once it runs: a full-screen agent draws on it. So what people have to know
// then goes to the journal, and to an attribute of the watcher's control group, which ls, doctor and metrics
// read.

// Said is a watcher's report for people.
type Said struct {
	Version int
	Gateway protocol.Identity
	Name    string
	Notes   []string
	Outside []Outside
	More    int // servers that are not contained, beyond those in Outside
	// Starters are processes below the gateway that the watcher follows as well.
	Starters []Starter `json:",omitempty"`
}

// Starter is a daemon of a gateway, or a gateway below it.
type Starter struct {
	Process  protocol.Identity
	IsDaemon bool
}

// Outside is a server that is not contained.
type Outside struct {
	Process protocol.Identity
	Command string // its first word
	Why     string
}

const (
	notesMost   = 8
	outsideMost = 16
	textMost    = 200 // bytes
)

// say reports something about the gateway, once.
func (w *watcher) say(text string) {
	w.change(func(s *Said) {
		if slices.Contains(s.Notes, clip(text)) {
			return
		}
		w.explain(w.starters.gateway.PID, "note", nil, text)
		w.logUncontained(w.starters.gateway.name()+": "+text, "")
		s.Notes = append(s.Notes, clip(text))
		s.Notes = s.Notes[max(len(s.Notes)-notesMost, 0):]
	})
}

// sayUnlimited reports limits that a server was to have and has not. Where the settings say best-effort, they
// are only a note of the server.
func (w *watcher) sayUnlimited(t *launcher.Taken, s *Server) {
	if !s.StrictLimits {
		return
	}
	for _, err := range t.Unlimited() {
		w.say("servers run without a limit: " + protocol.OneLine(err))
	}
}

// sayUnseen reports, once, that it is not known of some programs whether they are servers.
func (w *watcher) sayUnseen(why string) {
	w.unseen.Do(func() {
		w.say("it is not known of some programs whether they are servers, and they are not contained: " +
			why)
	})
}

// sayStarters records which starters there are, for people and for the next watcher.
func (w *watcher) sayStarters() {
	w.change(func(s *Said) {
		s.Starters = nil
		for _, one := range w.starters.list() {
			s.Starters = append(s.Starters, Starter{one.Identity, one.isDaemon})
		}
	})
}

// followAgain follows those that the watcher before has recorded. Any process of the user may have written
// that, but only processes below this gateway have its filter.
func (w *watcher) followAgain() {
	dir, err := openGroupOf(os.Getpid())
	if err != nil {
		return
	}
	defer dir.Close()
	for _, s := range readSaid(dir, w.starters.gateway.PID).Starters {
		status, err := proc.ReadStatus(s.Process.PID)
		if err == nil && status.Filtered && group.Alive(s.Process) {
			w.addStarter(s.Process.PID, s.IsDaemon)
		}
	}
}

// sayOutside reports that a server is not contained.
func (w *watcher) sayOutside(pid int, argv []string, why error) {
	text := protocol.OneLine(why)
	w.explain(pid, "left", argv, "it can't be contained: "+text)
	process, err := group.Identify(pid)
	if err != nil || proc.IsGone(why) {
		return // it has ended meanwhile
	}
	command := "?"
	if len(argv) > 0 {
		command = argv[0]
	}
	owner := w.above(pid).name()
	w.logUncontained(fmt.Sprintf("%s[%d] of %s is not contained: %s", command, pid, owner, text), command)
	w.change(func(s *Said) {
		s.Outside = append(s.Outside, Outside{process, clip(command), clip(text)})
		if surplus := len(s.Outside) - outsideMost; surplus > 0 {
			s.Outside = s.Outside[surplus:]
			s.More += surplus
		}
	})
}

func (w *watcher) logUncontained(text, server string) {
	_ = systemd.SendJournal(systemd.Warning, []systemd.JournalField{ // there may be no journal
		{Name: "MESSAGE", Value: text},
		{Name: "MESSAGE_ID", Value: protocol.MessageIDs()[protocol.EventUncontained]},
		{Name: "SYSLOG_IDENTIFIER", Value: "mcpscope"},
		protocol.Field("event", string(protocol.EventUncontained)), protocol.Field("name", server),
		protocol.Field("client", w.starters.gateway.name()),
		protocol.Field("client_pid", strconv.Itoa(w.starters.gateway.PID)),
	}...)
}

// change changes what this watcher, or the one before, has said.
func (w *watcher) change(how func(*Said)) {
	w.saying.Lock()
	defer w.saying.Unlock()
	var s Said
	gateway := w.starters.gateway
	dir, err := openGroupOf(os.Getpid())
	if err == nil {
		defer dir.Close()
		s = readSaid(dir, gateway.PID)
	}
	if s.Gateway.PID == 0 {
		s = Said{Version: protocol.ProtocolVersion, Gateway: gateway.Identity, Name: gateway.name()}
	}
	how(&s)
	if err != nil {
		return // no server is contained: the gateway's stderr has the reason
	}
	text := string(protocol.Encode(&s))
	_ = dir.SetAttr(saidAttribute(gateway.PID), text) // without attributes the journal has it
}

// forgetSaid is for the end of a gateway. Other gateways may have their attributes in the same directory.
func (w *watcher) forgetSaid() {
	dir, err := openGroupOf(os.Getpid())
	if err != nil {
		return
	}
	defer dir.Close()
	_ = dir.RemoveAttr(saidAttribute(w.starters.gateway.PID)) // there may be none
}

func saidAttribute(gateway int) string { return fmt.Sprintf("user.mcpscope.said.%d", gateway) }

// openGroupOf opens the control group of a process.
func openGroupOf(pid int) (*cgroup.Group, error) {
	root, path, err := group.Position(pid)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Child(strings.TrimPrefix(path, "/"))
}

// readSaid reads what was said of a gateway, the zero value if nothing was. Its user may have written the
// attribute: any text may be in it.
func readSaid(dir *cgroup.Group, gateway int) Said {
	var s Said
	text, _, _ := dir.Attr(saidAttribute(gateway)) // none, if nothing was said
	if protocol.Decode([]byte(text), &s) != nil {
		return Said{}
	}
	running, err := group.Identify(gateway)
	if err == nil && s.Gateway != running { // of another gateway, which had that pid before
		return Said{}
	}
	return s
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), textMost)], "") }
