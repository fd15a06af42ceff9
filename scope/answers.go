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
)

// A tree has no directory for a lock and attributes. Its supervisor answers instead, on
// an abstract socket whose name tells the uid and the id of the group: the kernel lists
// the names, lets go of them with the supervisor, and says who is behind them.

// facts are what a supervisor answers. Fields are only ever added.
type facts struct {
	Version    int         `json:"version"`
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	Backend    Backend     `json:"backend"`
	Launcher   string      `json:"launcher"` // as the attribute of that name
	Supervisor int         `json:"supervisor"`
	Client     clientFacts `json:"client"`
	Started    time.Time   `json:"started"`
	Policy     Policy      `json:"policy"`
	Notes      string      `json:"notes,omitempty"`  // as the attribute of that name
	Ending     Cause       `json:"ending,omitempty"` // why it is being ended
	Heard      bool        `json:"heard,omitempty"`  // what was asked for
}

// requestStop, with a grace behind it if it is to have another than its own, asks for a
// stop.
const requestStop = "stop "

const answerPrefix = "@mcpscope/"

func answerName(uid int, id string) string { return answerPrefix + strconv.Itoa(uid) + "/" + id }

// askedMost is how many may ask while the supervisor is stopped; for the next it would not be there.
const askedMost = 1024

// listen makes the socket; -1 where the name is taken, by someone in another pid
// namespace: such a supervisor can't be found, and does all else.
func (g *ownedTree) listen() int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: answerName(os.Getuid(), g.id)})
	if err == nil {
		err = unix.Listen(fd, askedMost)
	}
	if err != nil {
		_ = unix.Close(fd) // nobody has it
		return -1
	}
	return fd
}

// answerAll answers whoever has asked; another user gets nothing.
func (s *supervisor) answerAll() {
	for {
		fd, _, err := unix.Accept4(s.asked, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err != nil {
			break // EAGAIN: that was all
		}
		who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil && (who.Uid == 0 || int(who.Uid) == os.Getuid()) {
			s.answerOne(fd)
		}
		_ = unix.Close(fd) // it has been said
	}
	s.loop.again(s.asked, tokenAsked)
}

// answerOne does what is asked for. A request that comes later than the connection is not
// waited for: who makes it sees that it was not heard.
func (s *supervisor) answerOne(fd int) {
	f := s.facts()
	buf := make([]byte, 64)
	n, err := unix.Read(fd, buf)
	if grace, ok := strings.CutPrefix(string(buf[:max(n, 0)]), requestStop); ok && err == nil {
		f.Heard = s.group.(*ownedTree).want(grace)
	}
	if said, err := json.Marshal(f); err == nil {
		_, _ = unix.Write(fd, said) // who does not wait for it misses it
	}
	if f.Heard {
		s.stopNow()
	}
}

// want notes the grace that a stop is to have.
func (g *ownedTree) want(grace string) bool {
	if grace == "" {
		return true
	}
	d, err := ParseGrace(grace)
	if err == nil {
		g.grace = &d
	}
	return err == nil
}

// facts is for a supervisor that was told by its guard where it is.
func (s *supervisor) facts() facts {
	c := s.config
	return facts{
		Version: protocolVersion, ID: s.group.ident(), Name: c.Name, Backend: s.backend, Launcher: c.Place.Launcher,
		Supervisor: os.Getpid(), Client: c.Client, Started: time.Unix(0, c.Started).UTC(), Policy: c.Policy,
		Notes: noteText(s.notes), Ending: s.course.cause,
	}
}

// answerWait is for an answer. A supervisor that is not stopped has it in a millisecond.
const answerWait = time.Second

// errSilent: a supervisor is there and does not answer.
var errSilent = errors.New("the supervisor does not answer")

// ask asks the supervisor behind a name. pid is known even if it does not answer.
func ask(name string) (f facts, pid int, err error) { return askFor(name, "") }

// askFor asks it for something as well.
func askFor(name, request string) (f facts, pid int, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return f, 0, fmt.Errorf("create socket: %w", err)
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(answerWait.Nanoseconds())
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} { // connect(2) waits while the queue is full
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &wait); err != nil {
			return f, 0, fmt.Errorf("set timeout: %w", err)
		}
	}
	// With a timeout none of the three is restarted after a signal (signal(7)), such as the runtime's own.
	if err := uninterrupted(func() error { return unix.Connect(fd, &unix.SockaddrUnix{Name: name}) }); err != nil {
		return f, 0, fmt.Errorf("connect to %s: %w", name, err)
	}
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || !strings.HasPrefix(name, answerName(int(who.Uid), "")) {
		return f, 0, fmt.Errorf("%s is somebody else's: %w", name, unix.EACCES)
	}
	if request != "" {
		err := uninterrupted(func() error { _, err := unix.Write(fd, []byte(request)); return err })
		if err == unix.ECONNREFUSED {
			err = unix.ECONNRESET // it has answered, and closed: see control
		}
		if err != nil && err != unix.EPIPE {
			return f, int(who.Pid), fmt.Errorf("ask %s: %w", name, err)
		}
	}
	buf := make([]byte, maxMessage)
	var n int
	err = uninterrupted(func() error { n, err = unix.Read(fd, buf); return err })
	if errors.Is(err, unix.EAGAIN) {
		return f, int(who.Pid), errSilent
	}
	if err == nil {
		err = json.Unmarshal(buf[:max(n, 0)], &f)
	}
	if err != nil {
		return f, int(who.Pid), fmt.Errorf("hear %s: %w", name, err)
	}
	return f, int(who.Pid), nil
}

func uninterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// answering lists the names of a user's supervisors in our network namespace, of all for
// -1.
func answering(uid int) []string {
	prefix := answerPrefix
	if uid >= 0 {
		prefix = answerName(uid, "")
	}
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var names []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		at := strings.Index(line, prefix)
		if at < 0 {
			continue
		}
		name := strings.TrimSuffix(line[at:], "\n")
		if seen[name] || strings.Count(name, "/") != 2 { // connections have the name, too
			continue
		}
		seen[name] = true
		names = append(names, name)
	}
	return names
}

// sweepTrees continues supervisors that were stopped and have no launcher to do it: they
// end their trees then. One that can't is killed, and its guard ends the tree.
func sweepTrees(uid int) []Swept {
	var all []Swept
	for _, name := range answering(uid) {
		if s, swept := sweepTree(name); swept {
			all = append(all, s)
		}
	}
	return all
}

func sweepTree(name string) (Swept, bool) {
	_, pid, err := ask(name)
	if !errors.Is(err, errSilent) {
		return Swept{}, false // it lives and works, or has just gone
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return Swept{}, false
	}
	defer unix.Close(fd)
	if _, again, err := ask(name); !errors.Is(err, errSilent) || again != pid {
		return Swept{}, false // it has woken, or what we opened may be another
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0) // gone is as good
	f, _, err := ask(name)
	if id, ok := parseIdentity(f.Launcher); err != nil || !ok || id.alive() {
		return Swept{}, false // slow, or stopped again; and its launcher may live
	}
	if !awaitEnd(fd, unix.POLLIN, wakeWithin) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // gone is as good
	}
	return Swept{Name: f.Name, ID: name[strings.LastIndexByte(name, '/')+1:], Dir: strconv.Itoa(pid)}, true
}
