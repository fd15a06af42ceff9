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

// treeFacts are what the file holds. Fields are only ever added.
type treeFacts struct {
	Version    int         `json:"version"`
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	Supervisor int         `json:"supervisor"` // its pid, in its own pid namespace
	Launcher   string      `json:"launcher"`   // as the attribute of that name
	Client     clientFacts `json:"client"`
	Started    time.Time   `json:"started"`
	Policy     Policy      `json:"policy"`
	Notes      string      `json:"notes,omitempty"`  // as the attribute of that name
	Ending     Cause       `json:"ending,omitempty"` // as the attribute of that name
}

const (
	factsName   = "mcpscope-facts"
	factsMost   = 16 << 10 // bytes of JSON, padded with blanks
	requestMost = 64       // behind them: the term grace of a stop that was asked for
)

// factsFile is that file, as its supervisor has it or as somebody else has opened it.
type factsFile struct{ fd int }

// newFactsFile makes one. RLIMIT_FSIZE applies to memory files, too: where that is too small there is
// none, and the server can't be listed.
func newFactsFile() (factsFile, error) {
	fd, err := memfile.New(factsName, factsMost+requestMost)
	return factsFile{fd}, err
}

func (f factsFile) write(facts treeFacts) error {
	said, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	if len(said) > factsMost {
		return fmt.Errorf("facts of %d bytes: %w", len(said), unix.EFBIG)
	}
	_, err = unix.Pwrite(f.fd, append(said, strings.Repeat(" ", factsMost-len(said))...), 0)
	return err
}

// read gives what the file says. A process of the supervisor's user may have written that.
func (f factsFile) read() (facts treeFacts, err error) {
	buf := make([]byte, factsMost)
	n, err := unix.Pread(f.fd, buf, 0)
	if err == nil {
		err = json.Unmarshal(buf[:max(n, 0)], &facts)
	}
	if err != nil {
		return facts, fmt.Errorf("read the facts of a tree: %w", err)
	}
	return facts, nil
}

// request leaves the term grace that the next stop is to have.
func (f factsFile) request(grace time.Duration) error {
	text := make([]byte, requestMost)
	copy(text, graceText(grace))
	_, err := unix.Pwrite(f.fd, text, factsMost)
	return err
}

func (f factsFile) requested() (time.Duration, bool) {
	text := make([]byte, requestMost)
	n, err := unix.Pread(f.fd, text, factsMost)
	said := strings.TrimRight(string(text[:max(n, 0)]), "\x00")
	if err != nil || said == "" {
		return 0, false
	}
	grace, err := ParseGrace(said)
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
		t.facts, err = t.file.read()
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

// listTrees are the servers that have no group.
func listTrees(uid int) []*Listed {
	var all []*Listed
	_ = eachTree(uid, func(t *treeSupervisor) (keep bool) { // without /proc there is no tree
		facts := t.facts
		s := &Listed{
			ID: facts.ID, Name: facts.Name, UID: t.uid, Backend: Tree, State: Running, Cause: facts.Ending,
			Client: facts.Client, Supervisor: t.pid, Started: facts.Started, Policy: facts.Policy.String(), notes: facts.Notes,
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
