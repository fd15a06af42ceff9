// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A tree has no directory for attributes. Its supervisor has a memory file open instead, with the same
// facts in it: other processes of its user, and root's, read that by way of /proc/PID/fd, also while the
// supervisor is stopped.

// treeFacts are what is known when the server starts. They are written once, before anybody can need them: a
// reader who meets a write sees half of it. Fields are only ever added.
type treeFacts struct {
	Version    int
	ID         string
	Name       string
	Supervisor int    // its pid, in its own pid namespace
	Launcher   string // as the attribute of that name
	Client     protocol.ClientFacts
	Started    time.Time
	Policy     protocol.Policy
}

// String is a line for each, as the attributes of a group have them, quoted for Go.
func (f treeFacts) String() string {
	var b strings.Builder
	for key, value := range map[string]string{
		"version": strconv.Itoa(f.Version), "id": f.ID, "name": f.Name, "supervisor": strconv.Itoa(f.Supervisor), "launcher": f.Launcher,
		"client": f.Client.String(), "unit": f.Client.Unit, "start": strconv.FormatInt(f.Started.UnixNano(), 10), "policy": f.Policy.String(),
	} {
		b.WriteString(key + "=" + strconv.Quote(value) + "\n")
	}
	return b.String()
}

// parseTreeFacts passes over what it does not know: another version may have written that, or anybody anything.
func parseTreeFacts(text string) (f treeFacts, err error) {
	said := map[string]string{}
	for line := range strings.Lines(text) {
		key, quoted, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if value, err := strconv.Unquote(quoted); err == nil {
			said[key] = value
		}
	}
	f = treeFacts{ID: said["id"], Name: said["name"], Launcher: said["launcher"], Client: protocol.ParseClient(said["client"])}
	f.Client.Unit = said["unit"]
	number := func(key string) int64 {
		n, wrong := strconv.ParseInt(said[key], 10, 64)
		err = cmp.Or(err, wrong)
		return n
	}
	f.Version, f.Supervisor, f.Started = int(number("version")), int(number("supervisor")), time.Unix(0, number("start")).UTC()
	f.Policy, _ = protocol.ParsePolicy(said["policy"]) // the defaults, for what another version has
	return f, err
}

const factsName = "mcpscope-facts"

// part is a piece of the file, padded with zeros. Each is written on its own.
type part struct{ at, most int64 }

var (
	partFacts  = part{0, 16 << 10}       // treeFacts
	PartEnding = part{16 << 10, 64}      // as the attribute of that name
	PartNotes  = part{20 << 10, 4 << 10} // as the attribute of that name
	factsSize  = int(PartNotes.at + PartNotes.most)
)

// factsFile is that file, as its supervisor has it or as somebody else has opened it.
type factsFile struct{ fd int }

// newFactsFile makes one. RLIMIT_FSIZE applies to memory files, too: where that is too small there is
// none, and the server can't be listed.
func newFactsFile() (factsFile, error) {
	fd, err := linux.NewMemoryFile(factsName, factsSize)
	return factsFile{fd}, err
}

// Write puts text into a part, which it replaces.
func (f factsFile) Write(p part, text string) error {
	if int64(len(text)) > p.most {
		return fmt.Errorf("write %d bytes of facts: %w", len(text), unix.EFBIG)
	}
	_, err := unix.Pwrite(f.fd, append([]byte(text), make([]byte, int(p.most)-len(text))...), p.at)
	return err
}

// Read gives what is in a part. A process of the supervisor's user may have written that.
func (f factsFile) Read(p part) string {
	buf := make([]byte, p.most)
	n, _ := unix.Pread(f.fd, buf, p.at) // nothing, if there is none
	text, _, _ := strings.Cut(string(buf[:max(n, 0)]), "\x00")
	return text
}

func (f factsFile) writeFacts(facts treeFacts) error {
	return f.Write(partFacts, facts.String())
}

func (f factsFile) readFacts() (facts treeFacts, err error) {
	return parseTreeFacts(f.Read(partFacts))
}

func (f factsFile) Close() { _ = unix.Close(f.fd) } // memory

// TreeSupervisor is the supervisor of a tree, as another process sees it.
type TreeSupervisor struct {
	PID, UID int
	PIDFD    int
	File     factsFile
	Facts    treeFacts // when it was opened
}

// othersLookMost bounds the look at processes of other users, which can have as many descriptors as they like.
const othersLookMost = time.Second

// errLate: there was no time left for a process of another user.
var errLate = fmt.Errorf("processes of other users take more than %v to look at: %w", othersLookMost, unix.ETIMEDOUT)

// OpenTree returns the supervisor pid of a tree, nil if it is none that belongs to uid. What it says of
// itself may be forged, so its children count only as far as its owner could signal them: see freeze.Tree.
func OpenTree(pid, uid int) *TreeSupervisor {
	t, _ := openTree(pid, uid, time.Now().Add(othersLookMost))
	return t
}

// openTree looks at a process of another user until late.
func openTree(pid, uid int, late time.Time) (*TreeSupervisor, error) {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil || uid != hierarchy.Everyone && int(st.Uid) != uid {
		return nil, errNoFacts
	}
	if comm, err := proc.Comm(pid); err != nil || comm != protocol.CommOfGuards {
		return nil, errNoFacts
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	t := &TreeSupervisor{PID: pid, UID: int(st.Uid), PIDFD: pidfd, File: factsFile{-1}}
	err = t.openFacts(late)
	if err == nil && !(freeze.Root{PID: pid, PIDFD: pidfd}).Alive() { // what we have opened may be another's
		err = errNoFacts
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *TreeSupervisor) Close() {
	_ = unix.Close(t.PIDFD)
	if t.File.fd >= 0 {
		t.File.Close()
	}
}

// errNoFacts: the process has no such file.
var errNoFacts = errors.New("no facts of a tree")

// openFacts finds the file among the descriptors of the supervisor. One that looks at other supervisors has
// theirs open as well, and between fork and exec the main process has its supervisor's: it is the one
// that names this process.
func (t *TreeSupervisor) openFacts(late time.Time) error {
	status, err := proc.ReadStatus(t.PID)
	if err != nil || len(status.NSpid) == 0 {
		return cmp.Or(err, errNoFacts)
	}
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", t.PID))
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		if t.UID != os.Getuid() && time.Now().After(late) {
			return errLate
		}
		names, err := dir.Readdirnames(64)
		if err != nil {
			return errNoFacts // io.EOF, or it has ended
		}
		for _, name := range names {
			if t.openFactsAt(dir.Name()+"/"+name, status.NSpid[len(status.NSpid)-1]) {
				return nil
			}
		}
	}
}

// openFactsAt tells whether path is the file of the supervisor that has this pid in its own pid namespace.
func (t *TreeSupervisor) openFactsAt(path string, pid int) bool {
	target, err := os.Readlink(path)
	if err != nil || !strings.HasPrefix(target, "/memfd:"+factsName) {
		return false
	}
	fd, err := linux.ReopenMemoryFile(path, t.UID)
	if err != nil {
		return false
	}
	f := factsFile{fd}
	if facts, err := f.readFacts(); err == nil && facts.Supervisor == pid {
		t.File, t.Facts = f, facts
		return true
	}
	f.Close()
	return false
}

// OpenGuard returns a pidfd of the guard, the supervisor's parent; -1 if it is gone. While it is that
// parent its pid can't be another's.
func (t *TreeSupervisor) OpenGuard() int {
	st, err := proc.ReadStat(t.PID)
	if err != nil || st.PPID <= 1 {
		return -1
	}
	guard, err := unix.PidfdOpen(st.PPID, 0)
	if err != nil {
		return -1
	}
	if again, err := proc.ReadStat(t.PID); err != nil || again.PPID != st.PPID || !group.Supervises(st.PPID) {
		_ = unix.Close(guard)
		return -1
	}
	return guard
}

// Tree is what is below the supervisor. Where that is another user's, only processes count that this
// user could signal.
func (t *TreeSupervisor) Tree() *freeze.Tree {
	below := &freeze.Tree{Roots: []freeze.Root{{PID: t.PID, PIDFD: t.PIDFD}}, Spare: supervisors()}
	if t.UID != os.Getuid() {
		below.Owner, below.OwnersOnly = t.UID, true
	}
	return below
}

// EachTree visits the supervisors of a user's trees. Each is open for the call, and longer if visit keeps
// it. The error is errLate if other users have made this too long.
func EachTree(uid int, visit func(*TreeSupervisor) (keep bool)) error {
	return eachTree(uid, time.Now().Add(othersLookMost), visit)
}

func eachTree(uid int, until time.Time, visit func(*TreeSupervisor) (keep bool)) (late error) {
	_ = proc.Each(func(pid int) bool { // without /proc there is no tree
		t, err := openTree(pid, uid, until)
		if t != nil && !visit(t) {
			t.Close()
		}
		if err == errLate {
			late = err
		}
		return true
	})
	return late
}

// LauncherLives tells whether a tree has a launcher, which looks after the supervisor.
func (t *TreeSupervisor) LauncherLives() bool {
	id, ok := group.ParseIdentity(t.Facts.Launcher)
	return ok && id.Alive() && (id.Namespace != linux.PIDNamespace() || !group.TagOf(t.Facts.ID).On(id.PID))
}

// Stopped tells whether the supervisor can't act.
func (t *TreeSupervisor) Stopped() bool { return group.AllStopped([]int{t.PID}) }

// factsOfTree are those at the start of a supervisor.
func factsOfTree(at *protocol.Placed, c *protocol.Config) treeFacts {
	return treeFacts{
		Version: protocol.ProtocolVersion, ID: at.ID, Name: c.Name, Supervisor: os.Getpid(), Launcher: at.Launcher, Client: c.Client,
		Started: time.Unix(0, c.Started).UTC(), Policy: c.Policy,
	}
}
