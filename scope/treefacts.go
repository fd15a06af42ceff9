//go:build linux

package scope

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/memfile"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/tree"
)

// A tree has no directory for attributes. Its supervisor has a memory file open instead, with the same
// facts in it: other processes of its user, and root's, read that by way of /proc/PID/fd, also while the
// supervisor is stopped.

// treeFacts are what is known when the server starts. They are written once, before anybody can need them: a
// reader who meets a write sees half of it. Fields are only ever added.
type treeFacts struct {
	Version    int         `json:"version"`
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	Supervisor int         `json:"supervisor"` // its pid, in its own pid namespace
	Launcher   string      `json:"launcher"`   // as the attribute of that name
	Client     clientFacts `json:"client"`
	Started    time.Time   `json:"started"`
	Policy     Policy      `json:"policy"`
}

const factsName = "mcpscope-facts"

// part is a piece of the file, padded with zeros. Each is written on its own.
type part struct{ at, most int64 }

var (
	partFacts   = part{0, 16 << 10}       // JSON
	partRequest = part{16 << 10, 64}      // the term grace of a stop that was asked for
	partEnding  = part{16<<10 + 64, 64}   // as the attribute of that name
	partNotes   = part{20 << 10, 4 << 10} // as the attribute of that name
	factsSize   = int(partNotes.at + partNotes.most)
)

// factsFile is that file, as its supervisor has it or as somebody else has opened it.
type factsFile struct{ fd int }

// newFactsFile makes one. RLIMIT_FSIZE applies to memory files, too: where that is too small there is
// none, and the server can't be listed.
func newFactsFile() (factsFile, error) {
	fd, err := memfile.New(factsName, factsSize)
	return factsFile{fd}, err
}

// write puts text into a part, which it replaces.
func (f factsFile) write(p part, text string) error {
	if int64(len(text)) > p.most {
		return fmt.Errorf("write %d bytes of facts: %w", len(text), unix.EFBIG)
	}
	_, err := unix.Pwrite(f.fd, append([]byte(text), make([]byte, int(p.most)-len(text))...), p.at)
	return err
}

// read gives what is in a part. A process of the supervisor's user may have written that.
func (f factsFile) read(p part) string {
	buf := make([]byte, p.most)
	n, _ := unix.Pread(f.fd, buf, p.at) // nothing, if there is none
	text, _, _ := strings.Cut(string(buf[:max(n, 0)]), "\x00")
	return text
}

func (f factsFile) writeFacts(facts treeFacts) error {
	said, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	return f.write(partFacts, string(said))
}

func (f factsFile) readFacts() (facts treeFacts, err error) {
	err = json.Unmarshal([]byte(f.read(partFacts)), &facts)
	return facts, err
}

// requested is the term grace that the next stop is to have.
func (f factsFile) requested() (time.Duration, bool) {
	text := f.read(partRequest)
	if text == "" {
		return 0, false
	}
	grace, err := ParseGrace(text)
	return grace, err == nil
}

func (f factsFile) close() { _ = unix.Close(f.fd) } // memory

// treeSupervisor is the supervisor of a tree, as another process sees it.
type treeSupervisor struct {
	pid, uid int
	pidfd    int
	file     factsFile
	facts    treeFacts // when it was opened
}

// openTree returns the supervisor pid of a tree, nil if it is none that belongs to uid. What it says of
// itself may be forged, so its children count only as far as its owner could signal them: see tree.Tree.
func openTree(pid, uid int) *treeSupervisor {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil || uid != Everyone && int(st.Uid) != uid {
		return nil
	}
	if comm, err := proc.Comm(pid); err != nil || comm != commOfGuards {
		return nil
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	t := &treeSupervisor{pid: pid, uid: int(st.Uid), pidfd: pidfd, file: factsFile{-1}}
	t.file.fd, err = openFacts(pid, t.uid)
	if err == nil {
		t.facts, err = t.file.readFacts()
	}
	if err != nil || !t.holdsItsOwn() || !(tree.Root{PID: pid, PIDFD: pidfd}).Alive() { // what we have opened may be another's
		t.close()
		return nil
	}
	return t
}

// holdsItsOwn: between fork and exec the main process has the supervisor's files, too.
func (t *treeSupervisor) holdsItsOwn() bool {
	st, err := proc.ReadStatus(t.pid)
	return err == nil && len(st.NSpid) > 0 && st.NSpid[len(st.NSpid)-1] == t.facts.Supervisor
}

func (t *treeSupervisor) close() {
	_ = unix.Close(t.pidfd)
	if t.file.fd >= 0 {
		t.file.close()
	}
}

// errNoFacts: the process has no such file.
var errNoFacts = errors.New("no facts of a tree")

// openFacts finds the file among the descriptors of a process.
func openFacts(pid, uid int) (int, error) {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	names, err := os.ReadDir(dir)
	if err != nil {
		return -1, err
	}
	for _, n := range names {
		target, err := os.Readlink(dir + n.Name())
		if err != nil || !strings.HasPrefix(target, "/memfd:"+factsName) {
			continue
		}
		if fd, err := memfile.Reopen(dir+n.Name(), uid); err == nil {
			return fd, nil
		}
	}
	return -1, errNoFacts
}

// openGuard returns a pidfd of the guard, the supervisor's parent; -1 if it is gone. While it is that
// parent its pid can't be another's.
func (t *treeSupervisor) openGuard() int {
	st, err := proc.ReadStat(t.pid)
	if err != nil || st.PPID <= 1 {
		return -1
	}
	guard, err := unix.PidfdOpen(st.PPID, 0)
	if err != nil {
		return -1
	}
	if again, err := proc.ReadStat(t.pid); err != nil || again.PPID != st.PPID || !supervises(st.PPID) {
		_ = unix.Close(guard)
		return -1
	}
	return guard
}

// tree is what is below the supervisor. Where that is another user's, only processes count that this
// user could signal.
func (t *treeSupervisor) tree() *tree.Tree {
	below := &tree.Tree{Roots: []tree.Root{{PID: t.pid, PIDFD: t.pidfd}}, Spare: supervisors()}
	if t.uid != os.Getuid() {
		below.Owner, below.OwnersOnly = t.uid, true
	}
	return below
}

// eachTree visits the supervisors of a user's trees. Each is open for the call, and longer if visit keeps
// it.
func eachTree(uid int, visit func(*treeSupervisor) (keep bool)) error {
	return proc.Each(func(pid int) bool {
		if t := openTree(pid, uid); t != nil && !visit(t) {
			t.close()
		}
		return true
	})
}

// launcherLives tells whether a tree has a launcher, which looks after the supervisor.
func (t *treeSupervisor) launcherLives() bool {
	id, ok := parseIdentity(t.facts.Launcher)
	return ok && id.alive() && (id.Namespace != pidNamespace() || !markOf(t.facts.ID).On(id.PID))
}

// stopped tells whether the supervisor can't act.
func (t *treeSupervisor) stopped() bool { return allStopped([]int{t.pid}) }

// sweepTrees continues supervisors that were stopped and have no launcher to do it: they end their trees
// then. One that is stopped again and again is killed, and its guard ends the tree.
func sweepTrees(uid int) []Swept {
	var halted []*treeSupervisor
	_ = eachTree(uid, func(t *treeSupervisor) (keep bool) { // without /proc there is no tree
		if !t.stopped() || t.launcherLives() {
			return false
		}
		_ = unix.PidfdSendSignal(t.pidfd, unix.SIGCONT, nil, 0) // gone is as good
		halted = append(halted, t)
		return true
	})
	var swept []Swept
	until := time.Now().Add(wakeWithin) // for all of them together
	for _, t := range halted {
		ended := awaitEnd(t.pidfd, unix.POLLIN, time.Until(until))
		if !ended && t.stopped() {
			_ = unix.PidfdSendSignal(t.pidfd, unix.SIGKILL, nil, 0) // gone is as good
			ended = true
		}
		if ended {
			swept = append(swept, Swept{Name: t.facts.Name, ID: t.facts.ID, Dir: strconv.Itoa(t.pid)})
		}
		t.close()
	}
	return swept
}

// listTrees are the servers that have no group, as far as they are wanted.
func listTrees(uid int, wanted func(*Listed) bool) []*Listed {
	var all []*Listed
	_ = eachTree(uid, func(t *treeSupervisor) (keep bool) { // without /proc there is no tree
		facts := t.facts
		s := &Listed{
			ID: facts.ID, Name: facts.Name, UID: t.uid, Backend: Tree, State: Running, Cause: Cause(t.file.read(partEnding)),
			Client: facts.Client, Supervisor: t.pid, Started: facts.Started, Policy: facts.Policy.String(), notes: t.file.read(partNotes),
		}
		if !wanted(s) {
			return false
		}
		st, err := t.tree().State()
		switch {
		case s.Cause != "":
			s.State = Ending
		case err == nil && st.Frozen:
			s.State = Frozen
		}
		if id, ok := parseIdentity(facts.Launcher); ok && id.alive() {
			s.Launcher = id.PID
		}
		all = append(all, s)
		return false
	})
	return all
}

// factsOfTree are those at the start of a supervisor.
func factsOfTree(at *placed, c *config) treeFacts {
	return treeFacts{
		Version: protocolVersion, ID: at.ID, Name: c.Name, Supervisor: os.Getpid(), Launcher: at.Launcher, Client: c.Client,
		Started: time.Unix(0, c.Started).UTC(), Policy: c.Policy,
	}
}
