// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package page is the memory page that launcher, guard and helpers share, in place of a protocol.
// A byte on a socket means that there is something new on it, and the end of the socket means that the
// other process is dead.
package page

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
)

// Page is the shared memory. Times are those of CLOCK_MONOTONIC in nanoseconds, and 0 stands for never.
// Descriptors have the same number in all of these processes, and -1 stands for none.
//
// Each part has one writer, with the exceptions that guard/README.md lists. It sends a word on a socket after
// it has written. A reader reads the word before the page. These system calls order the memory: a reader sees
// all that was written before the last word.
type Page struct {
	// Written before the server runs, by the launcher or by the watcher that starts the server.
	Layout uint32 // LayoutNow of the program that has made it
	FD     Inherited
	Order  Order

	// Written while it runs.
	ByLauncher Launched
	ByGuard    Seen
	ByHelper   Decided
	ByWatcher  Watched
	ByOthers   Requested

	// Of the guard and the watchers of a gateway.
	Gateway Gateway

	// Written before the server runs.
	Started     Started // as the attribute of a group has it until a helper has settled the start
	Directories [1024]byte
	Memory      int32  // the memory file
	size        uint32 // of the configuration
	Plan        Plan
	// Found is written by the guard at the end. It is apart from what changes while the server runs, which
	// takes less memory so.
	Found Found
}

// LayoutNow is raised with each change of a page: after an upgrade, a command meets the pages of servers that
// the program before has started. Launcher, guard and helpers of a server are always one program.
const LayoutNow = 16

// ErrLayout: the page is another version's.
var ErrLayout = errors.New("another version of mcpscope has started this server: restart its client")

// Inherited are the descriptors that guard and helpers inherit from the launcher, which writes them before it
// forks the guard.
type Inherited struct {
	Stdin    int32    // epoll set, readable after a hang-up of the client's end
	Stdout   int32    // the same
	Input    int32    // epoll set, readable while there is unread input
	Room     [2]int32 // epoll sets of stdout and stderr, readable while a write would not wait
	Client   int32    // pidfd
	Terminal int32    // O_PATH descriptor of stdin, if that is one whose program is frozen when idle
	Launcher int32    // pidfd
	Program  int32    // O_PATH descriptor of the program that a helper executes
	Leaf     int32    // directory of the cgroup for guards and helpers; none in a tree
	Parent   int32    // directory above those of SetDirectories
	Keep     int32    // for a report, or for a gateway's explanations
}

// Order is how the server is started and stopped. The launcher writes it before the server runs.
type Order struct {
	EOFGrace  int64 // how long a server may live after the hang-up; negative: for ever
	TermGrace int64 // how long it may live after SIGTERM; negative: for ever
	// EndWithin is how long a helper may take to end containers and to report.
	EndWithin int64
	Managed   bool // the group is in a scope, or will be
	Replaces  bool // the start stops an older server
	Foreign   bool // the launcher had children before: of others only those with the tag are the server's
	PlainEnd  PlainEnd
	Verbose   bool   // with HelperEndsFirst: the launcher prints the notes
	Tag       uint64 // of the members of a gateway's server that is a tree
	// ContainersFirst: a helper removes containers before the members are killed: the engine needs those.
	ContainersFirst bool
	// Keeps: a pattern may keep members, which a helper moves to a group of their own before the others are
	// asked to end.
	Keeps bool
}

// PlainEnd names the process that ends a server of which nothing is left after its main process. Without a
// guard that stays, the launcher chooses another one: see guard.Launcher.
type PlainEnd uint32

const (
	LauncherEnds    PlainEnd = iota // it removes the group, and nothing is reported
	HelperEndsLater                 // the launcher returns; a helper reports and removes the group
	HelperEndsFirst                 // the launcher returns when a helper has done so
	MainEnds                        // the launcher's Go program does so, where no guard can be forked
)

// Launched are the launcher's fields. Until its exec the main process writes some of them. The launcher
// writes a signal before SignalsGot.
type Launched struct {
	MainPID    int32
	FailedStep Step
	Errno      uint32
	ended      uint32 // see SetStatus: one word, so no reader sees a half of it
	Childless  bool   // the launcher has no child of the server, and so no descendant
	EndLeft    EndLeft
	Forwarded  uint32 // counts the other signals, which the launcher has sent to the main process
	Signals    [SignalsMost]Signal
	SignalsGot uint32 // how many signals there were: signal n is Signals[n%SignalsMost]
	Guards     uint32 // counts the guards that were killed, and have been replaced
	Session    int32  // that of the launcher, in which the main process is born (getsid(2))
	StartedAt  int64  // when the main process was forked
	ExitedAt   int64  // when its end was seen
	ends       uint32 // see ClaimForLauncher
}

// EndLeft is how the launcher has left the end to a helper, after the main process has exited.
type EndLeft uint32

const (
	NotLeft      EndLeft = iota // the main process runs, or the launcher itself ends the server
	LeftWaiting                 // there are members to stop or a report to write: the launcher waits for that
	LeftReturned                // nothing of the server was left, and the launcher returns without the helper
)

// Signal is one that the launcher got.
type Signal struct {
	At     int64
	Number uint32
	ToMain bool // the launcher has sent it to the main process
}

// SignalsMost is the number of signals that the page has room for. A stop takes two.
const SignalsMost = 16

// HasOthers reports whether the launcher may have children that are not the server's.
func (p *Page) HasOthers() bool { return p.Order.Foreign || p.ByHelper.Daemons.HasKept }

// Seen are the guard's fields. Of a gateway's server they are the watcher's.
type Seen struct {
	GuardPID   int32
	Payload    int32  // directory of the group, in guard and helpers; the lock on it is the guard's too
	Generation uint32 // of helpers, guards and watchers
	// Happened has a time for each event.
	Happened [EventsRoom]int64
	Stop     Stopping
	Thaw     Thaw
	Tasks    Tasks // for a helper
	Strayed  bool  // the guard is not in the scope, where the one before was
	Over     bool  // nothing is left, or nothing that could be ended
}

// Stopping is how far the end of a server has come, for the next guard.
type Stopping struct {
	State decide.State
	Cause Cause // why it is ended
	Asked bool  // the members have got the signal of the stop
	// NoDaemon: before they did, no member was in another session than those of launcher and main process.
	NoDaemon bool
	// Starter: the main process has only started the server, and has ended. Another member has the client's
	// pipes.
	Starter bool
	ends    uint32 // see ClaimForGuard
}

// Thaw is the last thaw of members that were idle.
type Thaw struct {
	At       int64
	IsNew    bool // no helper has noticed it yet
	ForInput bool
}

// Events whose time the guard writes to Seen.Happened. They happen once. But a client that has died is
// replaced by another process that holds its end: see Holder.
const (
	StdinClosed = iota
	StdoutClosed
	ClientDied
	LauncherDied
	StopRequested
	IdleTooLong
)

// EventsRoom is a power of two, so that a mask bounds an index: raw code can't panic.
const EventsRoom = 8

// Cause is the number of a causes.Cause; 0 is none.
type Cause uint32

// The causes that the guard knows.
const (
	byMainExit    Cause = 1
	byStdin       Cause = 3
	byStdout      Cause = 4
	byClient      Cause = 5
	BySignal      Cause = 6
	byLauncher    Cause = 7
	ByRequest     Cause = 8
	byIdleTimeout Cause = 9
)

// FirstCause is why the server ends: what has happened first. The main process ends with its launcher
// (PR_SET_PDEATHSIG), and may be seen before it. That of a starter means nothing.
func (p *Page) FirstCause() (first Cause) {
	all := [...]Cause{
		byStdin, byStdout, byClient, byLauncher, ByRequest, byIdleTimeout,
	}
	first = byMainExit
	since := int64(math.MaxInt64)
	if p.ByOthers.Stop { // at a time that is not known
		first = ByRequest
	}
	isNoReason := p.ByGuard.Happened[LauncherDied] != 0 || p.ByGuard.Stop.Starter
	if exited := p.ByLauncher.ExitedAt; exited != 0 && !isNoReason {
		since = exited
		first = byMainExit
	}
	for event, cause := range all {
		if at := p.ByGuard.Happened[event]; at != 0 && at < since {
			since = at
			first = cause
		}
	}
	if p.ByLauncher.SignalsGot > 0 && p.ByLauncher.Signals[0].At < since {
		return BySignal
	}
	return first
}

// Tasks are what the guard wants of a helper, a bit each.
type Tasks uint32

// The tasks. A helper that there is settles the start and looks after an idle server as well.
const (
	EndContainers Tasks = 1 << iota // until ContainersGone
	FindHolder                      // until there is a Holder
	End                             // report the end, and remove the group: it exits then
	KeepMembers                     // until MembersKept
	FindUse                         // until UseFound: members that others use, before they are asked to end
)

// Holder is who can write to stdin after the death of the client.
type Holder uint32

// The holders.
const (
	NoAnswer      Holder = iota
	NoHolder             // nobody outside of the server, and of other servers
	LivingHolder         // another process: it is the client now
	UnknownHolder        // some processes can't be examined
)

// Found are the members that a guard has found.
type Found struct {
	Stopped Members // that were there beside the main process when the stop began
	Killed  Members // that did not end on the signal of the stop
}

// Members are some processes of a server.
type Members struct {
	Total uint32
	List  [MembersMost]Member
}

// MembersMost is report.NamedMost.
const MembersMost = 16

// Member is a process as it was when the guard has found it.
type Member struct {
	PID  int32
	Name [16]byte
}

// Decided are a helper's fields, with the exceptions that guard/README.md lists.
type Decided struct {
	CallHelperAt   int64  // when the guard starts a helper; the launcher writes the first one
	ForwardedRead  uint32 // of Launched.Forwarded
	Frozen         bool   // the members are, since they are idle: the guard thaws them at an event
	IdleTooLong    bool   // the idle timeout is over
	ContainersGone bool   // or could not be removed
	Holder         Holder
	HolderPID      int32 // of LivingHolder
	Stuck          bool  // a member could not be killed: the launcher returns, and the helper waits for it
	Reported       bool  // the report is written
	Start          Settling
	Looks          Looks
	Daemons        Daemons

	EndNotes [2048]byte // lines for people, as they are printed
	Left     [2048]byte // members that could not be ended, a line each
}

// Daemons are what helpers have found of members that may have a life of their own.
type Daemons struct {
	// HasKept: a child of the launcher may be one that a pattern keeps, and not the server's any more.
	HasKept     bool
	MembersKept bool       // those that a pattern keeps were looked for when the stop began
	UseFound    bool       // and those that others use
	InUse       [1024]byte // a line for each of these: see helper.findUse
}

// Watched are the fields of the watcher of a gateway, for one of its servers.
type Watched struct {
	Unproven bool // see launcher.Server
	Released bool // the watcher has left the process alone: the next one does not go on with it
}

// Requested are the fields of any process of the user.
type Requested struct {
	Stop bool // a stop is requested: of a tree, or of the older server in place of which another one runs
}

// Settling is how far a helper is with the tasks that a start leaves for later.
type Settling struct {
	Begun    bool // and the start is in the journal
	Done     bool // without it the next helper begins them again
	Sweeping bool // the helper stops orphans of others: not killed when nothing is left
}

// Looks are the observations of a server that may be idle, from one helper for the next.
type Looks struct {
	Saved     bool // a helper has left in order; the next one takes them, and forgets that
	Reclaimed bool // the server has lost memory to a reclaim, so graces after a thaw are longer
	Policy    IdlePolicy
	Check     IdleCheck
}

// IdlePolicy has the fields of an idle.Policy.
type IdlePolicy struct {
	Due, LastAt, LastWorkedAt, LastReadAt, LastMarkedAt int64

	Last         IdleUsage
	Used         bool
	Frozen       bool
	NextIsBreath bool
	WasForInput  bool
	IsUncounted  bool
	Probation    uint8
	RefusedTimes uint32
	RefusedFor   [96]byte // the reason
}

// IdleUsage is an idle.Usage.
type IdleUsage struct {
	CPU, Own      int64 // nanoseconds
	Read, Written int64 // bytes
	Active        bool
	Marks         Marks
}

// IdleCheck is what an idle timeout goes by.
type IdleCheck struct {
	NextCheck, CallSince int64
	CPU                  int64 // nanoseconds
	Read, Written        int64 // bytes
	Members              uint64
}

// Marks are idle.Marks.
type Marks struct {
	Read, Written          int64
	Members, Locks, Reaped uint64
}

// One process ends a server: the launcher, when it finds that nothing is left after the main process, or the
// guard. Each says so before it looks whether the other one does. If both do at the same time, the launcher
// leaves it to the guard.

// ClaimForLauncher has the launcher end the server. It returns false if the guard does.
func ClaimForLauncher(p *Page) bool {
	atomic.StoreUint32(&p.ByLauncher.ends, 1)
	if atomic.LoadUint32(&p.ByGuard.Stop.ends) == 0 {
		return true
	}
	LeaveToGuard(p)
	return false
}

// LeaveToGuard gives the claim of the launcher up.
func LeaveToGuard(p *Page) { atomic.StoreUint32(&p.ByLauncher.ends, 0) }

// HasLauncherClaim reports whether the launcher has the claim, or had it at its death.
func HasLauncherClaim(p *Page) bool { return atomic.LoadUint32(&p.ByLauncher.ends) != 0 }

// ClaimForGuard has the guard end the server. It returns false while the launcher does.
func ClaimForGuard(p *Page) bool {
	atomic.StoreUint32(&p.ByGuard.Stop.ends, 1)
	return !HasLauncherClaim(p)
}

// Gateway is for the page that a gateway's guard and its watchers share. Pages of servers do not use it. The
// guard writes Listener and AnswerAt, and a watcher the others.
type Gateway struct {
	Listener int32 // of the seccomp filter
	AnswerAt int64 // when the guard answers in the place of a watcher
	MovedOut bool  // guard and watcher are out of the reach of a stop of the gateway's unit
	HasTrees bool  // a server has no cgroup: other processes of its user read from the watcher what they list
	Refused  bool  // a watcher can't contain servers, and Refusal says why
	Refusal  [512]byte
	// Held are the calls that a watcher judges (struct seccomp_notif), for the next one. Further callers
	// wait in the kernel.
	Held [HeldMost][10]uint64
}

// Kept are the descriptors that a gateway's guard has of a server, for the next watcher: those that nothing
// else could be made of again. -1 stands for none, and Memory is 0 without a server: descriptor 0 is never
// one of these, and the holes in a file are zero.
type Kept struct {
	Memory  int32 // the file of the server's page
	Payload int32 // the directory of the group, with its lock; none of a tree
	Stdin   int32 // epoll set: its main process may have closed the descriptor, or refuse to be asked for it
	Stdout  int32 // the same
}

const keptSize = int64(unsafe.Sizeof(Kept{}))

// HeldMost is the number of calls that a watcher judges at once.
const HeldMost = 128

// Step names the failure of a start, before the exec of the main process.
type Step uint32

// The steps. A failed exec is status 126 or 127, by Errno; the others are 125.
const (
	StepNone Step = iota
	StepFork
	StepJoin
	StepProcessGroup
	StepLimits
	StepExec
	StepGuard // the next ones are before there is a main process: see Failure
	StepGroup
	StepFrozen
	StepThreaded
	StepLimit
	StepScope
)

var stepNames = [...]string{
	"", "fork", "join cgroup", "set process group", "set resource limits", "execute",
	"fork the guard", "make the group", "make the group, for a group above it is frozen",
	"have a process in the group, for a group above it is threaded", "set a limit of the group",
	"start a scope",
}

func (s Step) String() string { return stepNames[s] }

// Size is the size of a Page in memory. It does not depend on the machine's page size.
const Size = 12 * 4096

// FilesLeast is the limit of open files with which a server is started: a helper inherits it, and needs some
// descriptors to find the members.
const FilesLeast = 32

const sizeMost = 8 << 20 // of a configuration: more than a command line can be

// New makes a page whose descriptors are all none. It needs no Go runtime.
func New() (p *Page, errno unix.Errno) {
	const name = FileName + "\x00"
	addr := uintptr(unsafe.Pointer(unsafe.StringData(name)))
	fd, _, errno := unix.RawSyscall(unix.SYS_MEMFD_CREATE, addr, unix.MFD_CLOEXEC, 0)
	if errno == 0 {
		_, _, errno = unix.RawSyscall(unix.SYS_FTRUNCATE, fd, Size, 0)
	}
	if errno == 0 {
		p, errno = Map(int32(fd))
	}
	if errno != 0 {
		return nil, errno
	}
	p.Layout = LayoutNow
	p.Memory = int32(fd)
	p.ByGuard.Payload = -1
	p.Gateway.Listener = -1
	for i := range p.Descriptors() {
		p.Descriptors()[i] = -1
	}
	return p, 0
}

// Map maps the page of a memory file. It needs no Go runtime.
func Map(fd int32) (*Page, unix.Errno) {
	end, _, errno := unix.RawSyscall(unix.SYS_LSEEK, uintptr(fd), 0, unix.SEEK_END)
	if errno != 0 || end < Size { // a shorter file would be a SIGBUS
		return nil, unix.EINVAL
	}
	const access = unix.PROT_READ | unix.PROT_WRITE
	addr, _, errno := unix.RawSyscall6(unix.SYS_MMAP, 0, Size, access, unix.MAP_SHARED, uintptr(fd), 0)
	if errno != 0 {
		return nil, errno
	}
	return *(**Page)(unsafe.Pointer(&addr)), 0
}

// Open is Map, in a helper.
func Open(fd int) (*Page, error) {
	p, errno := Map(int32(fd))
	if errno != 0 {
		return nil, fmt.Errorf("map memory file: %w", errno)
	}
	return p, nil
}

// GatewayGuard is the comm of the guard of a gateway.
const GatewayGuard = "mcpscope-guard"

// FileName is how the page's file is called in /proc/PID/fd.
const FileName = "mcpscope"

// RequestStop writes a request of a stop to the page of a tree, from another process of its user. The
// watcher of a gateway reads it when it gets names.StopSignal. The next guard of another server
// reads it if the one before was killed with the signal.
func RequestStop(fd int) error {
	layout := uint32(0)
	head := unsafe.Slice((*byte)(unsafe.Pointer(&layout)), unsafe.Sizeof(layout))
	if err := readAt(fd, head, 0); err != nil {
		return err
	}
	if layout != LayoutNow {
		return ErrLayout
	}
	at := unsafe.Offsetof(Page{}.ByOthers) + unsafe.Offsetof(Requested{}.Stop)
	if _, err := unix.Pwrite(fd, []byte{1}, int64(at)); err != nil {
		return fmt.Errorf("write to the page: %w", err)
	}
	return nil
}

// Inspected is the content of a page for a process that only inspects the server. All may be anything.
type Inspected struct {
	Config   []byte
	Cause    Cause
	Guard    int  // its pid in its own namespace
	IsServer bool // not released by the watcher of a gateway, nor known by its name alone
}

// Read reads the page of another process.
func Read(fd int) (Inspected, error) {
	head := make([]byte, Size)
	if err := readAt(fd, head, 0); err != nil {
		return Inspected{}, err
	}
	p := (*Page)(unsafe.Pointer(&head[0]))
	if p.Layout != LayoutNow {
		return Inspected{}, ErrLayout
	}
	p.Memory = int32(fd)
	config, err := p.Config()
	return Inspected{
		Config:   config,
		Cause:    p.ByGuard.Stop.Cause,
		Guard:    int(p.ByGuard.GuardPID),
		IsServer: !p.ByWatcher.Released && !p.ByWatcher.Unproven,
	}, err
}

// Close gives back what this process has of the page. The guard has its own.
func (p *Page) Close() {
	for _, fd := range []int32{p.Memory, p.FD.Program, p.FD.Launcher} {
		_ = unix.Close(int(fd)) // nothing to flush
	}
	p.Unmap()
}

// Unmap gives back the memory alone. The file is still open, and has the page.
func (p *Page) Unmap() {
	_ = unix.MunmapPtr(unsafe.Pointer(p), Size) // it was mapped whole
}

// Descriptors is a view of Inherited.
func (p *Page) Descriptors() []int32 {
	return unsafe.Slice(&p.FD.Stdin, unsafe.Sizeof(p.FD)/unsafe.Sizeof(p.FD.Stdin))
}

// hasEnded is a bit that no status of wait4(2) has.
const hasEnded = 1 << 31

// SetStatus records the end of the main process, with a status as of wait4(2).
func (p *Page) SetStatus(status uint32) { atomic.StoreUint32(&p.ByLauncher.ended, status|hasEnded) }

// Exited reports whether the main process has ended, and its parent knows the status.
func (p *Page) Exited() bool { return atomic.LoadUint32(&p.ByLauncher.ended)&hasEnded != 0 }

// Status returns the status that SetStatus has recorded, or 0.
func (p *Page) Status() uint32 { return atomic.LoadUint32(&p.ByLauncher.ended) &^ hasEnded }

// AddSignal adds one that the launcher got.
func (p *Page) AddSignal(s Signal) {
	p.ByLauncher.Signals[p.ByLauncher.SignalsGot%SignalsMost] = s
	atomic.AddUint32(&p.ByLauncher.SignalsGot, 1)
}

// RepeatAfter is policy.RepeatAfter, in nanoseconds.
const RepeatAfter = 50e6

// IsRepeated reports whether a client has sent a signal once more: the server gets no grace then. One that
// comes at once is the same: systemd sends SIGTERM twice at times.
func (p *Page) IsRepeated() bool {
	got := min(p.ByLauncher.SignalsGot, SignalsMost)
	for i := range got {
		again := &p.ByLauncher.Signals[i%SignalsMost]
		for j := range i {
			first := &p.ByLauncher.Signals[j%SignalsMost]
			if first.Number == again.Number && again.At >= first.At+RepeatAfter {
				return true
			}
		}
	}
	return false
}

// SeeSignals has the signals so far count as ones that a running server has got. One that is frozen reacts to
// none before a thaw.
func (p *Page) SeeSignals() {
	if !p.ByHelper.Frozen {
		p.ByHelper.ForwardedRead = p.ByLauncher.Forwarded
	}
}

// MissedSignal reports whether an idle server has got a signal that no helper has seen. Its members have to
// run to react to that.
func (p *Page) MissedSignal() bool {
	return p.ByHelper.Frozen && p.ByLauncher.Forwarded != p.ByHelper.ForwardedRead
}

// SetConfig writes what a helper has to know, behind the page. It is called once, before there is a
// server.
func (p *Page) SetConfig(config []byte) error {
	if n, err := unix.Pwrite(int(p.Memory), config, Size); err != nil || n < len(config) {
		return fmt.Errorf("write memory file: %w", errors.Join(err, unix.ENOSPC))
	}
	p.size = uint32(len(config))
	return nil
}

// Config reads what SetConfig has written.
func (p *Page) Config() ([]byte, error) {
	config := make([]byte, min(p.size, sizeMost))
	return config, readAt(int(p.Memory), config, Size)
}

func readAt(fd int, to []byte, at int64) error {
	if n, err := unix.Pread(fd, to, at); err != nil || n < len(to) {
		return fmt.Errorf("read memory file: %w", errors.Join(err, unix.EIO))
	}
	return nil
}

// SetDirectories names what the guard removes if no helper can: paths below Parent, in this order. It is
// called before the first of them is made.
func (p *Page) SetDirectories(paths ...string) error {
	text := strings.Join(paths, "\x00") + "\x00\x00"
	if len(text) > len(p.Directories) {
		return fmt.Errorf("remember directories: %w", unix.ENAMETOOLONG)
	}
	clear(p.Directories[copy(p.Directories[:], text):])
	return nil
}

// DirectoryMost is the longest name of a group's directory, with a 0 behind it.
const DirectoryMost = 96

// Directory is the name of the group's directory: the last one of SetDirectories, or that of a scope that raw
// code has planned.
func (p *Page) Directory() string {
	if p.Plan.Place.InScope {
		name, _, _ := bytes.Cut(p.Plan.Place.Scope[:], []byte{0})
		return string(name)
	}
	text, _, _ := strings.Cut(string(p.Directories[:]), "\x00\x00")
	return text[strings.LastIndexByte(text, 0)+1:]
}

var _ [Size - unsafe.Sizeof(Page{})]byte // a page is enough

// Bytes on the sockets between launcher, guard and helper. WordKeep and WordDrop are answered by one byte:
// an errno, or 0.
const (
	WordLook  = 1 // there is something new on the page
	WordGo    = 2 // the group is there, and comes with it
	WordDone  = 3 // nothing is left: the guard exits
	WordRest  = 4 // of a helper: it has nothing more to do, and exits
	WordKill  = 6 // of the guard to the launcher: SIGKILL to all its children
	WordReady = 7 // a watcher answers from now on
	WordKeep  = 8 // a gateway has one more server: a whole Message, with its Kept
	WordDrop  = 9 // and one less: a whole Message
)

// Guard is the guard as launcher or helper have it.
type Guard struct {
	Page  *Page
	Sock  int // readable when there is something new on the page, and at the guard's death: see Drain
	PIDFD int
}

// Attach returns the guard of a helper or a watcher, by the page and the socket of its arguments. It makes
// the calling process undumpable. The error is ESRCH only if the guard is dead.
func Attach(p *Page, sock int) (*Guard, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("refuse to be traced: %w", err)
	}
	for _, fd := range append(p.Descriptors(), p.Memory, p.ByGuard.Payload, p.Gateway.Listener, int32(sock)) {
		unix.CloseOnExec(int(fd)) // EBADF for -1
	}
	parent := unix.Getppid()
	if parent != int(p.ByGuard.GuardPID) {
		return nil, fmt.Errorf("find the guard: %w", unix.ESRCH)
	}
	pidfd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return nil, fmt.Errorf("find the guard: %w", err)
	}
	if unix.Getppid() != parent { // its pid may be another's
		_ = unix.Close(pidfd) // it was only opened
		return nil, fmt.Errorf("find the guard: %w", unix.ESRCH)
	}
	return &Guard{p, sock, pidfd}, nil
}

// Go hands the group to the guard, whose lock the guard shares from then on, or the listener of a gateway. It
// needs no Go runtime.
func (g *Guard) Go(payload int) unix.Errno {
	m := Message{Word: WordGo}
	return g.pass(&m, 1, PassedFDs{int32(payload), -1, -1, -1})
}

// Drain reads Sock. dead: the guard is. If there is more to read, Sock is readable again.
func (g *Guard) Drain() (dead bool) {
	var words [64]byte
	n, _, err := unix.Recvfrom(g.Sock, words[:], unix.MSG_DONTWAIT)
	return n <= 0 && err != unix.EAGAIN && err != unix.EINTR
}

// Look announces a change of the page.
func (g *Guard) Look() { g.Send(WordLook) }

// Send does not wait: a full socket has news enough, and the guard's death is noticed otherwise. A member may
// have stopped the guard.
func (g *Guard) Send(word byte) {
	_ = unix.PidfdSendSignal(g.PIDFD, unix.SIGCONT, nil, 0) // it has ended
	g.SendWord(word)
}

// SendWord sends a word, by sendmsg(2): sandboxes of agents refuse sendto(2). It needs no Go runtime.
func (g *Guard) SendWord(word byte) {
	m := Message{Word: word}
	g.pass(&m, 1, passNone())
}
