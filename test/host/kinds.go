// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// The kinds of hosts, and where they are met.
var (
	// cgroupfs

	// ReadOnlyCgroupfs is the default of docker, podman and Kubernetes.
	ReadOnlyCgroupfs = Kind{Name: "read-only cgroupfs", flags: unix.CLONE_NEWCGROUP, plan: poorPlan{Cgroupfs: "read-only"}}
	// ReadOnlySlice is such a container whose groups were writable before, or that shows the host's.
	ReadOnlySlice = Kind{
		Name: "read-only mcp.slice", flags: unix.CLONE_NEWCGROUP, plan: poorPlan{Cgroupfs: "read-only", Slice: true},
	}
	// NoCgroupfs is a chroot or a minimal sandbox.
	NoCgroupfs = Kind{Name: "no cgroupfs", plan: poorPlan{Cgroupfs: "none"}}
	// OwnCgroupfs is a container that may make groups; it starts in the root of its
	// hierarchy (podman --systemd=always, --privileged).
	OwnCgroupfs = Kind{Name: "own cgroupfs", flags: unix.CLONE_NEWCGROUP, plan: poorPlan{Cgroupfs: "own"}}
	// HostCgroupfs shows the whole hierarchy to a private cgroup namespace, in which
	// /proc/self/cgroup names its root (docker -v /sys/fs/cgroup:/sys/fs/cgroup).
	HostCgroupfs = Kind{Name: "host's cgroupfs", flags: unix.CLONE_NEWCGROUP}
	// SubtreeCgroupfs shows the own group alone, while /proc/self/cgroup says where it
	// is on the host (--cgroupns=host).
	SubtreeCgroupfs = Kind{Name: "own subtree only", plan: poorPlan{Cgroupfs: "subtree"}}
	// CgroupV1 has directories at /sys/fs/cgroup that are no version 2 groups.
	CgroupV1 = Kind{Name: "cgroup v1", plan: poorPlan{Cgroupfs: "v1"}}
	// Hybrid has version 2 below the version 1 controllers, without any of its own.
	Hybrid = Kind{Name: "hybrid", flags: unix.CLONE_NEWCGROUP, plan: poorPlan{Cgroupfs: "hybrid"}}

	// Users

	// FakeRoot is uid 0 of a user namespace with no rights outside (CI sandboxes; with
	// ReadOnlyCgroupfs or OwnCgroupfs a rootless container).
	FakeRoot = Kind{Name: "fake root", flags: unix.CLONE_NEWUSER}
	// Unprivileged is a user without manager: cron, su, CI, WSL2 without systemd.
	Unprivileged = Kind{Name: "unprivileged", plan: poorPlan{UID: nobody}}
	// Delegated is a user whose group is its own, as by Delegate=yes, without a manager
	// that can be asked. The command is in that very group.
	Delegated = Kind{Name: "delegated", plan: poorPlan{UID: nobody, Delegated: true}}

	// Buses of a user in a login session

	// DeadBus has socket files of the user's manager and of the bus, without a listener.
	DeadBus = Kind{Name: "dead bus", plan: poorPlan{UID: nobody, Session: true}, run: runDead}
	// ForeignBus has a runtime directory that belongs to someone else, who listens.
	ForeignBus = Kind{Name: "foreign bus", plan: poorPlan{UID: nobody, Session: true}, run: runForeign}
	// HangingBus has sockets of the user that accept and never answer.
	HangingBus = Kind{Name: "hanging bus", plan: poorPlan{UID: nobody, Session: true}, run: runHanging}
	// DeadBusDelegated and HangingBusDelegated have a group of their own instead, in no session.
	DeadBusDelegated    = Kind{Name: "dead bus and delegated", plan: poorPlan{UID: nobody, Delegated: true}, run: runDead}
	HangingBusDelegated = Kind{Name: "hanging bus and delegated", plan: poorPlan{UID: nobody, Delegated: true}, run: runHanging}
	// HangingManager is that for root: the system manager's and the system bus.
	HangingManager = Kind{Name: "hanging system manager", run: runHanging}

	// Processes

	// Hidepid lets a user see its own processes only.
	Hidepid = Kind{Name: "hidepid", plan: poorPlan{UID: nobody, Proc: "hidepid"}}
	NoProc  = Kind{Name: "no /proc", plan: poorPlan{Proc: "none"}}
	// PID1 runs the command as PID 1, as containers without an init do.
	PID1 = Kind{Name: "PID 1", flags: unix.CLONE_NEWPID, plan: poorPlan{Proc: "own"}}
	// NoReaper runs it below a PID 1 that waits for nothing else: orphans stay as
	// zombies, and one is there from the start.
	NoReaper = Kind{Name: "no reaper", flags: unix.CLONE_NEWPID, plan: poorPlan{Proc: "own", Idle: true}}

	// Limits

	NoNewPrivs = Kind{Name: "no_new_privs", plan: poorPlan{NoNewPrivs: true}}
	// ReadOnlyRoot has nothing writable but cgroupfs, and no HOME.
	ReadOnlyRoot = Kind{Name: "read-only root", plan: poorPlan{ReadOnly: true}}
)

// System calls that containers refuse. Old dockers answer EPERM where the kernel
// would say ENOSYS.
var (
	NoClone3          = refusing("clone3", unix.SYS_CLONE3, unix.ENOSYS)
	Clone3Denied      = refusing("clone3", unix.SYS_CLONE3, unix.EPERM)
	NoPidfdOpen       = refusing("pidfd_open", unix.SYS_PIDFD_OPEN, unix.ENOSYS)
	PidfdOpenDenied   = refusing("pidfd_open", unix.SYS_PIDFD_OPEN, unix.EPERM)
	NoPidfdSignal     = refusing("pidfd_send_signal", unix.SYS_PIDFD_SEND_SIGNAL, unix.ENOSYS)
	PidfdSignalDenied = refusing("pidfd_send_signal", unix.SYS_PIDFD_SEND_SIGNAL, unix.EPERM)
	NoCloseRange      = refusing("close_range", unix.SYS_CLOSE_RANGE, unix.ENOSYS)
	CloseRangeDenied  = refusing("close_range", unix.SYS_CLOSE_RANGE, unix.EPERM)
	NoExecveat        = refusing("execveat", unix.SYS_EXECVEAT, unix.EPERM)
)

// NoSignals is a container with no_new_privs under AppArmor 4, as Debian 13 has it: see TestNoSignals in test/vm/guest.
var NoSignals = Kind{
	Name: "no signals", flags: unix.CLONE_NEWCGROUP,
	plan: poorPlan{Cgroupfs: "read-only", Refuse: refuse(unix.EACCES, unix.SYS_KILL, unix.SYS_TGKILL)},
}

// Files limits RLIMIT_NOFILE.
func Files(n uint64) Kind {
	return Kind{Name: fmt.Sprintf("%d files", n), plan: poorPlan{Files: n}}
}

// Processes limits RLIMIT_NPROC, which counts the threads of a user, those outside
// of this host too. So it is one that no other kind and no other test binary has; root is exempt.
func Processes(n uint64) Kind {
	return Kind{Name: fmt.Sprintf("%d processes", n), plan: poorPlan{UID: 60000 + rand.IntN(5000), Processes: n}}
}

func refusing(name string, call int, errno unix.Errno) Kind {
	return Kind{
		Name: name + " " + unix.ErrnoName(errno),
		plan: poorPlan{Refuse: refuse(errno, call)},
	}
}

func refuse(errno unix.Errno, calls ...int) []refusal {
	var all []refusal
	for _, call := range calls {
		all = append(all, refusal{Call: uint32(call), Errno: uint32(errno)})
	}
	return all
}

// The filters of agents' sandboxes and of containers, as they were in November 2026, without what no program
// here calls.
var (
	// CodexFilter is that of codex-linux-sandbox for commands without network.
	CodexFilter = Kind{Name: "filter of Codex", plan: poorPlan{
		NoNewPrivs: true,
		Refuse: append(refuse(unix.EPERM,
			unix.SYS_CONNECT, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_BIND, unix.SYS_LISTEN,
			unix.SYS_GETPEERNAME, unix.SYS_GETSOCKNAME, unix.SYS_SHUTDOWN, unix.SYS_SENDTO, unix.SYS_SENDMMSG,
			unix.SYS_RECVMMSG, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_PTRACE, unix.SYS_IO_URING_SETUP,
			unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_PROCESS_VM_READV,
			unix.SYS_PROCESS_VM_WRITEV),
			refusal{Call: unix.SYS_SOCKET, Errno: uint32(unix.EPERM), Except: unix.AF_UNIX},
			refusal{Call: unix.SYS_SOCKETPAIR, Errno: uint32(unix.EPERM), Except: unix.AF_UNIX}),
	}}
	// ClaudeFilter is that of Claude Code's sandbox-runtime: no sockets but those of the network. AF_UNIX is
	// 1, and no other family that a program here opens is an odd number.
	ClaudeFilter = Kind{Name: "filter of Claude Code", plan: poorPlan{
		NoNewPrivs: true,
		Refuse: append(refuse(unix.EPERM,
			unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER),
			refusal{Call: unix.SYS_SOCKET, Errno: uint32(unix.EPERM), Only: unix.AF_UNIX}),
	}}
	// DockerFilter is the default one of docker and podman, for a container without capabilities.
	DockerFilter = Kind{Name: "filter of docker", plan: poorPlan{
		NoNewPrivs: true,
		Refuse: append(refuse(unix.EPERM,
			unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE, unix.SYS_MOUNT, unix.SYS_UMOUNT2,
			unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT,
			unix.SYS_PIVOT_ROOT, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_KEYCTL, unix.SYS_ADD_KEY,
			unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT),
			refusal{Call: unix.SYS_CLONE3, Errno: uint32(unix.ENOSYS)},
			refusal{Call: unix.SYS_CLONE, Errno: uint32(unix.EPERM), Only: 0x7e020000}), // CLONE_NEW*
	}}
)

// Container is a plain one of docker or podman, as root. The command is its first process.
var Container = Kind{
	Name:  "plain container",
	flags: unix.CLONE_NEWCGROUP | unix.CLONE_NEWPID,
	plan:  poorPlan{Cgroupfs: "read-only", Proc: "own", Refuse: DockerFilter.plan.Refuse},
}

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		ReadOnlyCgroupfs, ReadOnlySlice, NoCgroupfs, OwnCgroupfs, HostCgroupfs, SubtreeCgroupfs, CgroupV1, Hybrid,
		FakeRoot, Unprivileged, Delegated,
		DeadBus, ForeignBus, HangingBus, DeadBusDelegated, HangingBusDelegated, HangingManager,
		Hidepid, NoProc, PID1, NoReaper,
		NoNewPrivs, ReadOnlyRoot, Files(8), Processes(20),
		NoClone3, Clone3Denied, NoPidfdOpen, PidfdOpenDenied,
		NoPidfdSignal, PidfdSignalDenied, NoSignals, NoCloseRange, CloseRangeDenied, NoExecveat,
		CodexFilter, ClaudeFilter, DockerFilter,
	}
}
