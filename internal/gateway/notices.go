// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// A gateway's stderr is its own once it runs: a full-screen agent draws on it. So what people have to know
// then goes to the journal, and to an attribute of the watcher's control group, which ls, doctor and metrics
// read.

// Notices are a watcher's report for people. The next watcher reads them, too.
type Notices struct {
	Version int
	Gateway protocol.Identity
	Name    string // of the gateway
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
	textMost    = 300 // bytes
)

// Living are the servers that are not contained and have not ended.
func (n *Notices) Living() []Outside {
	hasEnded := func(o Outside) bool { return !group.Alive(o.Process) }
	return slices.DeleteFunc(slices.Clone(n.Outside), hasEnded)
}

func (n *Notices) addNote(text string) {
	n.Notes = append(n.Notes, text)
	n.Notes = n.Notes[max(len(n.Notes)-notesMost, 0):]
}

func (n *Notices) addOutside(server Outside) {
	n.Outside = append(n.Outside, server)
	surplus := len(n.Outside) - outsideMost
	if surplus > 0 {
		n.Outside = n.Outside[surplus:]
		n.More += surplus
	}
}

// reporter writes the notices of one watcher, and the journal.
type reporter struct {
	gateway      *starter
	explanations explanations
	mu           sync.Mutex // of the attribute
	unseen       sync.Once  // see reportUnseen
}

// reportNote reports something about the gateway, once.
func (r *reporter) reportNote(text string) { r.reportAs(journal.Note, text) }

// reportNoneContained reports that no server of the gateway is contained.
func (r *reporter) reportNoneContained(why error) {
	r.reportAs(journal.Uncontained, "its servers are not contained: "+why.Error())
}

// reportAs writes a note, which is an event of that kind in the journal.
func (r *reporter) reportAs(event journal.Event, text string) {
	r.updateNotices(func(n *Notices) {
		if slices.Contains(n.Notes, clip(text)) {
			return
		}
		r.explanations.write(r.gateway.PID, "note", nil, text)
		r.sendJournal(systemd.Warning, event, r.gateway.name()+": "+text, "")
		n.addNote(clip(text))
	})
}

// reportUnlimited reports limits that a server was to have and has not.
func (r *reporter) reportUnlimited(t *launcher.TakenServer) {
	for _, err := range t.Unlimited {
		r.reportNote("servers run without a limit: " + unlimitedText(err, t.ID(), t.Backend()))
	}
}

// unlimitedText has neither the path nor the value of one server: the same lack of many servers is one note.
func unlimitedText(err error, id string, b names.Backend) string {
	limit, ok := errors.AsType[*protocol.LimitError](err)
	if !ok || limit.File == "" {
		return text.JoinLines(err)
	}
	words := strings.Fields(limit.Cause)
	for i, word := range words {
		path := strings.TrimSuffix(word, ":")
		if strings.HasPrefix(path, "/") && strings.Contains(path, id) {
			words[i] = "its group" + word[len(path):]
		}
	}
	line := limit.File + ": " + strings.Join(words, " ")
	if limit.Missing == "" {
		return line
	}
	step := group.StepForControllers(b, []string{limit.Missing}, "/sys/fs/cgroup", group.IsHybrid())
	if step == "" {
		return line
	}
	return line + "; " + step
}

// reportWeaker reports that servers are in no cgroup although the host has cgroups.
func (r *reporter) reportWeaker(why error) {
	r.reportNote("servers are contained by their process trees alone: " + text.JoinLines(why))
}

// reportUnseen reports, once, that it is not known of some programs whether they are servers.
func (r *reporter) reportUnseen(why string) {
	r.unseen.Do(func() {
		const text = "it is not known of some programs whether they are servers, and they are not contained: "
		r.reportNote(text + why)
	})
}

// reportOutside reports that a server is not contained. client is the name of its client.
func (r *reporter) reportOutside(pid int, argv []string, client string, why error) {
	text := text.JoinLines(why)
	r.explanations.write(pid, "left", argv, "it can't be contained: "+text)
	process, err := group.Identify(pid)
	if err != nil || proc.IsGone(why) {
		return // it has ended meanwhile
	}
	command := "?"
	if len(argv) > 0 {
		command = argv[0]
	}
	message := fmt.Sprintf("%s[%d] of %s is not contained: %s", command, pid, client, text)
	r.sendJournal(systemd.Warning, journal.Uncontained, message, command)
	r.updateNotices(func(n *Notices) {
		n.addOutside(Outside{Process: process, Command: clip(command), Why: clip(text)})
	})
}

func (r *reporter) logDaemon(daemon *starter) {
	const text = "%s, a daemon of %s, is watched as well: its servers are contained, and end with it"
	message := fmt.Sprintf(text, daemon.text(), r.gateway.text())
	r.sendJournal(systemd.Info, journal.Daemon, message, daemon.name())
}

// sendJournal writes an event to the journal. name is that of a daemon, the command of a server, or "" for
// the gateway.
func (r *reporter) sendJournal(level systemd.Priority, event journal.Event, message, name string) {
	client := r.gateway.name()
	if client == programs.Tool {
		return // it is a trial of doctor, which reports what it found itself
	}
	fields := []systemd.JournalField{
		{Name: "MESSAGE", Value: message},
		{Name: "MESSAGE_ID", Value: journal.MessageIDs()[event]},
		{Name: "SYSLOG_IDENTIFIER", Value: "mcpscope"},
		journal.Field("event", string(event)),
		journal.Field("name", name),
		journal.Field("client", client),
		journal.Field("client_pid", strconv.Itoa(r.gateway.PID)),
		journal.OwnerField(os.Getuid()),
	}
	_ = systemd.SendJournal(level, fields...) // there may be no journal
}

// updateNotices changes the notices that this watcher, or the one before, has written.
func (r *reporter) updateNotices(change func(*Notices)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var n Notices
	dir, err := openGroupOf(os.Getpid())
	if err == nil {
		defer dir.Close()
		n = readNotices(dir, r.gateway.PID)
	}
	if n.Gateway.PID == 0 {
		n = Notices{Version: protocol.ProtocolVersion, Gateway: r.gateway.Identity, Name: r.gateway.name()}
	}
	change(&n) // it writes to the journal as well, which there may be without a control group
	if err != nil {
		return // no server is contained: the gateway's stderr has the reason
	}
	text := string(protocol.Encode(&n))
	_ = dir.SetAttr(noticesAttribute(r.gateway.PID), text) // without attributes the journal has it
}

// removeNotices removes the attribute of an ended gateway. Other gateways may have their attributes in the
// same directory.
func (r *reporter) removeNotices() {
	dir, err := openGroupOf(os.Getpid())
	if err != nil {
		return
	}
	defer dir.Close()
	_ = dir.RemoveAttr(noticesAttribute(r.gateway.PID)) // there may be none
}

func noticesAttribute(gateway int) string { return fmt.Sprintf("user.mcpscope.said.%d", gateway) }

// openGroupOf opens the control group of a process.
func openGroupOf(pid int) (*cgroup.Group, error) {
	root, path, err := group.Position(pid)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Child(strings.TrimPrefix(path, "/"))
}

// readNotices reads the notices about a gateway, the zero value without any. The gateway's user may have
// written the attribute: any text may be in it.
func readNotices(dir *cgroup.Group, gateway int) Notices {
	var n Notices
	text, _, _ := dir.Attr(noticesAttribute(gateway)) // without the attribute there are no notices
	if protocol.Decode([]byte(text), &n) != nil {
		return Notices{}
	}
	running, err := group.Identify(gateway)
	if err == nil && n.Gateway != running { // of another gateway, which had that pid before
		return Notices{}
	}
	return n
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), textMost)], "") }
