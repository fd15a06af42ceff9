// SPDX-License-Identifier: Apache-2.0

// Package systemd starts transient scopes (systemd.scope(5), org.freedesktop.systemd1(5)), reads units, and
// writes to the journal.
//
// Every call is bounded: a dead or hanging bus is an error like any other. The package never reads the
// environment: SDKs pass neither XDG_RUNTIME_DIR nor DBUS_SESSION_BUS_ADDRESS to a server.
package systemd

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Manager is a connection to one manager.
type Manager struct {
	conn   *godbus.Conn
	object godbus.BusObject
	gone   chan *godbus.Signal // JobRemoved
	turn   turn
}

// Kind selects the system manager or the manager of a user.
type Kind string

const (
	System Kind = "system"
	User   Kind = "user"
)

// ErrOutside: the manager is outside of a sandbox that this process is in, and can't do anything for it.
var ErrOutside = errors.New("the manager is outside of our namespaces")

// ErrNotOurs follows the name of a runtime directory that belongs to another user.
var ErrNotOurs = errors.New("is not a directory of ours")

const manager = "org.freedesktop.systemd1.Manager"

// Dial connects to the private socket of a manager that is Present. systemctl uses it as well. It needs no
// bus, and delivers signals without a match rule. All calls have to end within that time together.
func Dial(kind Kind, within time.Duration) (*Manager, error) {
	deadline := time.Now().Add(within)
	c, err := connect(kind, deadline)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(deadline) // a socket has deadlines; godbus ends all calls when a read fails
	selected := &selective{Conn: c}
	conn, _ := godbus.NewConn(selected) // only an option can fail
	err = conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err != nil {
		_ = conn.Close() // and c
		return nil, cannotConnect(kind, fmt.Errorf("%s: %w", socketOf(kind), err))
	}
	m := &Manager{conn: conn, gone: make(chan *godbus.Signal, 64), turn: noTurn}
	m.object = conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	conn.Signal(m.gone)
	return m, nil
}

// DialInTurn is Dial for a process that starts a scope. Those of a user connect one after the other. The turn
// ends when the manager has accepted the start, or with the connection.
func DialInTurn(kind Kind, within time.Duration) (*Manager, error) {
	t := noTurn
	if kind == User {
		t = awaitTurn(turnDirectory(), turnWithin)
	}
	m, err := Dial(kind, within)
	if err != nil {
		t.end()
		return nil, err
	}
	m.turn = t
	return m, nil
}

// endTurn lets the next process start.
func (m *Manager) endTurn() {
	m.turn.end()
	m.turn = noTurn
}

// Reach returns why this process can't connect to a manager that is Present. One that hangs can be connected
// to.
func Reach(kind Kind) error {
	c, err := connect(kind, time.Now().Add(reachWithin))
	if err == nil {
		_ = c.Close() // nothing was written
	}
	return err
}

const reachWithin = time.Second // for a manager with too many connections that it has not accepted

func connect(kind Kind, deadline time.Time) (net.Conn, error) {
	return connectTo(socketOf(kind), kind, deadline)
}

func cannotConnect(kind Kind, why error) error {
	return fmt.Errorf("connect to the %s manager: %w", kind, why)
}

func socketOf(kind Kind) string {
	if kind == User {
		return runtimeDir() + "/systemd/private"
	}
	return "/run/systemd/private"
}

func runtimeDir() string { return "/run/user/" + strconv.Itoa(os.Getuid()) }

// checkPIDs refuses a manager in another pid namespace: there our pids denote other processes.
func checkPIDs(c net.Conn) error {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) {
		peer, unknown := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if unknown != nil || peer.Pid == 0 {
			err = fmt.Errorf("%w: it is in another pid namespace", ErrOutside)
		}
	})
	return cmp.Or(failed, err)
}

// Close closes the connection.
func (m *Manager) Close() {
	m.endTurn()
	_ = m.conn.Close() // no call is pending
}

// Own returns the kind of manager that starts units for this user: root uses the system manager.
func Own() Kind {
	if os.Getuid() == 0 {
		return System
	}
	return User
}

// notBootedError is errors.ErrUnsupported, whose text says nothing to people.
type notBootedError struct{}

func (notBootedError) Error() string { return "this host was not booted with systemd" }

// Is makes [errors.Is] find errors.ErrUnsupported.
func (notBootedError) Is(target error) bool { return target == errors.ErrUnsupported }

// Present checks, without a connection, whether there can be such a manager: systemd runs and, for a user
// manager, there is a runtime directory of this user.
func Present(kind Kind) error {
	if err := unix.Access("/run/systemd/system", unix.F_OK); err != nil { // sd_booted(3)
		return notBootedError{}
	}
	if kind == System {
		return nil
	}
	dir := runtimeDir()
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("find the user manager: %s: %w", dir, err)
	}
	if int(st.Uid) != os.Getuid() || st.Mode&unix.S_IFMT != unix.S_IFDIR { // the sockets of another manager
		return fmt.Errorf("find the user manager: %s %w", dir, ErrNotOurs)
	}
	return nil
}

// UnitOf returns the unit of a process by its cgroup path, and the manager of the unit. Kind User stands for
// the manager of uid. ok is false outside any unit.
func UnitOf(path string, uid int) (unit string, kind Kind, ok bool) {
	kind = System
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case part == "user@"+strconv.Itoa(uid)+".service":
			// The rest of the path belongs to the user manager.
			unit = ""
			kind = User
		case strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope"):
			unit = strings.TrimPrefix(part, "_") // before names that could collide with a controller's file
		case strings.HasSuffix(part, ".slice"):
		case unit != "":
			return unit, kind, true // a group below the unit
		}
	}
	return unit, kind, unit != ""
}

// ManagerUser returns the user whose manager has a cgroup. ok is false for a cgroup of the system manager.
func ManagerUser(path string) (uid int, ok bool) {
	for part := range strings.SplitSeq(path, "/") {
		text, isManager := strings.CutPrefix(part, "user@")
		text, isService := strings.CutSuffix(text, ".service")
		if !isManager || !isService {
			continue
		}
		uid, err := strconv.Atoi(text)
		if err == nil && uid >= 0 {
			return uid, true
		}
	}
	return -1, false
}

// Scope describes a transient scope.
type Scope struct {
	Name        string // with ".scope"; never one that exists
	Slice       string
	Description string
	PIDs        []int         // the processes that are put into it
	TimeoutStop time.Duration // from KillSignal to SIGKILL when it is stopped; systemd's default is 90 s
	KillSignal  int
	// Client is a unit of the same manager, or "". The scope is stopped after it, and also when it ends
	// by itself (BindsTo= and Before=).
	Client   string
	Outlives bool // only the order applies (Before=), so the scope stays when Client ends
}

// ErrRefused: the manager does not have the unit, and will not start it later. After another error it may.
var ErrRefused = errors.New("refused")

// ErrExists: the manager has a unit of that name.
var ErrExists = errors.New("it exists")

// Start starts the scope and returns when the process is in it.
//
// A scope with a client is started without its dependencies (job mode "ignore-dependencies"). BindsTo=
// implies Requires=, which would restart a client that has crashed meanwhile. Before= would make the scope
// wait for a stop of the client, which may itself wait for the server. BindsTo= still works: systemd stops a
// scope that becomes active while its client is inactive (seen with 252). It also does so while the client is
// a scope that the manager has not started yet. So Client is ignored if it does not run, or if the manager
// does not know it.
//
// Without a client the first message is that of the scope, which is long enough to need no wake.
func (m *Manager) Start(s Scope) (err error) {
	defer func() {
		if _, answered := errors.AsType[godbus.Error](err); answered {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}()
	mode := "fail"
	if s.Client != "" {
		runs, err := m.readyFor(s)
		if err != nil {
			return err
		}
		if runs {
			mode = "ignore-dependencies"
		} else {
			s.Client = ""
		}
	}
	var job godbus.ObjectPath
	call := m.object.Call(manager+".StartTransientUnit", 0,
		s.Name, mode, s.properties(), []dbus.PropertyCollection{})
	err = call.Store(&job)
	if answer, answered := errors.AsType[godbus.Error](err); answered && answer.Name == unitExists {
		err = fmt.Errorf("%w: %w", ErrExists, err)
	}
	if err != nil {
		return err
	}
	m.endTurn() // the job may wait for other jobs
	return m.await(job)
}

const unitExists = "org.freedesktop.systemd1.UnitExists"

// readyFor reports whether the client runs. It starts the slice, which a scope without dependencies does not.
func (m *Manager) readyFor(s Scope) (bool, error) {
	m.wake()
	if err := m.object.Call(manager+".StartUnit", 0, s.Slice, "fail").Err; err != nil {
		return false, fmt.Errorf("start %s: %w", s.Slice, err)
	}
	state, err := m.Property(s.Client, "Unit", "ActiveState")
	return state != "inactive" && state != "failed", err
}

// wake sends a ping before a first message that is short. systemd 252 reads up to 256 bytes of a private
// connection's handshake at once, and processes a first message among them only when more data arrives.
func (m *Manager) wake() { wake(m.object) }

func wake(object godbus.BusObject) {
	object.Go("org.freedesktop.DBus.Peer.Ping", godbus.FlagNoReplyExpected, nil)
}

// Property reads a property of a unit, which is a text. of is the kind of unit.
func (m *Manager) Property(unit, of, property string) (text string, err error) {
	err = m.read(unit, of, property, &text)
	return text, err
}

func (m *Manager) read(unit, of, property string, value any) error {
	path := godbus.ObjectPath("/org/freedesktop/systemd1/unit/" + dbus.PathBusEscape(unit))
	call := m.conn.Object(m.object.Destination(), path).Call(
		"org.freedesktop.DBus.Properties.Get", 0, "org.freedesktop.systemd1."+of, property)
	if err := call.Store(value); err != nil {
		return fmt.Errorf("read the state of %s: %w", unit, err)
	}
	return nil
}

// await waits for the end of the job: in half of all cases, the reply alone arrives before the process is in
// the scope.
func (m *Manager) await(job godbus.ObjectPath) error {
	for sig := range m.gone {
		// JobRemoved(u id, o job, s unit, s result)
		if sig.Name != manager+".JobRemoved" || len(sig.Body) < 4 || sig.Body[1] != job {
			continue
		}
		if result := sig.Body[3]; result != "done" {
			return fmt.Errorf("%w: its job ended with %q", ErrRefused, result)
		}
		return nil
	}
	return errors.New("the manager closed the connection, or does not answer")
}

func (s Scope) properties() []dbus.Property {
	all := []dbus.Property{
		property("PIDs", unsigned(s.PIDs)),
		dbus.PropSlice(s.Slice),
		dbus.PropDescription(s.Description),
		property("Delegate", true),
		property("TimeoutStopUSec", uint64(s.TimeoutStop.Microseconds())),
		property("CollectMode", "inactive-or-failed"),
		property("KillSignal", int32(s.KillSignal)),
	}
	if s.Client != "" {
		all = append(all, dbus.PropBefore(s.Client))
	}
	if s.Client != "" && !s.Outlives {
		all = append(all, dbus.PropBindsTo(s.Client))
	}
	return all
}

func property(name string, value any) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
}

func unsigned(pids []int) (all []uint32) {
	for _, pid := range pids {
		all = append(all, uint32(pid))
	}
	return all
}

// Attach moves processes into a subgroup of a unit. A user manager asks the system manager for processes
// outside its own cgroup, which the user cannot move.
func (m *Manager) Attach(unit, subgroup string, pids []int) error {
	call := m.object.Call(manager+".AttachProcessesToUnit", 0, unit, subgroup, unsigned(pids))
	if call.Err != nil {
		return fmt.Errorf("attach to %s: %w", unit, call.Err)
	}
	return nil
}
