// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A machine is a booted host as the process sees it that booted it.
type machine struct {
	group  string // what the host takes for the root of the hierarchy
	shared *os.File
	ready  *net.UnixConn
	init   *exec.Cmd
	output bytes.Buffer // read it only after ended
	ended  chan struct{}
}

// boot returns when systemd has reported that it is up.
func boot(group string, o Options) (*machine, error) {
	shared, err := detachedTmpfs()
	if err != nil {
		return nil, err
	}
	m := &machine{group: filepath.Join(group, "root"), shared: shared, ended: make(chan struct{})}
	if err := m.start(o); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	err = m.awaitReady()
	if err == nil {
		err = m.checkTarget()
	}
	if err != nil {
		return nil, errors.Join(m.explain(err), m.stop())
	}
	return m, nil
}

func (m *machine) start(o Options) error {
	if o.Build != nil {
		if err := o.Build(m.sharedPath()); err != nil {
			return err
		}
	}
	if err := m.listen(); err != nil {
		return err
	}
	if err := os.Mkdir(m.group, 0o755); err != nil {
		return err
	}
	group, err := os.Open(m.group)
	if err != nil {
		return err
	}
	defer group.Close()
	plan, err := o.plan()
	if err != nil {
		return err
	}
	return m.startInit(plan, int(group.Fd()))
}

// detachedTmpfs is mounted nowhere, so that no killed run can leave it behind. The
// host attaches it at Shared.
func detachedTmpfs() (*os.File, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "mode", "755"); err != nil {
		return nil, os.NewSyscallError("fsconfig", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, os.NewSyscallError("fsconfig", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	return os.NewFile(uintptr(fd), Shared), nil
}

// sharedPath is a way to Shared for us and for our children.
func (m *machine) sharedPath() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), m.shared.Fd())
}

const readySocket = ".ready"

// listen opens the socket on which PID 1 reports that it is up, as it does to any
// container manager. A path reaches across network namespaces.
func (m *machine) listen() error {
	path := filepath.Join(m.sharedPath(), readySocket)
	var err error
	m.ready, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	return err
}

// startInit starts PID 1. The namespaces of mounts and cgroups are unshared in the
// child: clone would take our own group for the root of the hierarchy.
func (m *machine) startInit(plan bootPlan, group int) error {
	cmd, err := stageCommand(stageBoot, plan)
	if err != nil {
		return err
	}
	cmd.Stdout = &m.output
	cmd.Stderr = &m.output
	cmd.ExtraFiles = []*os.File{m.shared}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), bed.InstalledEnv + "=" + os.Getenv(bed.InstalledEnv)}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD:  true,
		CgroupFD:     group,
		Cloneflags:   unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET,
		Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP,
		Pdeathsig:    unix.SIGKILL,
	}
	started := make(chan error)
	go func() {
		// The signal comes at the death of the thread that forked, and Go ends
		// threads as it likes: this thread stays as long as PID 1 does.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // however it ended, it was the end of the host
			close(m.ended)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	m.init = cmd
	return nil
}

func (m *machine) awaitReady() error {
	ready := make(chan error, 1)
	go drain(m.ready, ready)
	ctx, cancel := pace.Context(2 * patience)
	defer cancel()
	select {
	case err := <-ready:
		return err
	case <-m.ended:
		return fmt.Errorf("PID 1 ended: %v\n%s", m.init.ProcessState, m.output.Bytes())
	case <-ctx.Done():
		return fmt.Errorf("not up after %v", 2*patience)
	}
}

// drain reads what PID 1 reports as long as it lives: it would wait for ever once
// the socket is full. The first READY=1, or the end, goes to ready.
func drain(conn *net.UnixConn, ready chan<- error) {
	for buf := make([]byte, 4096); ; {
		n, err := conn.Read(buf)
		if err != nil || strings.Contains("\n"+string(buf[:n])+"\n", "\nREADY=1\n") {
			select {
			case ready <- err:
			default: // not for the first time
			}
		}
		if err != nil {
			return
		}
	}
}

// checkTarget finds out whether what READY=1 reports is a success: it comes when
// nothing is left to be started.
func (m *machine) checkTarget() error {
	if out, err := m.enter("systemctl", "is-active", target).CombinedOutput(); err != nil {
		return fmt.Errorf("%s is %s", target, bytes.TrimSpace(out))
	}
	return nil
}

// explain adds what the host itself can say about a boot that fails or hangs.
func (m *machine) explain(err error) error {
	select {
	case <-m.ended:
		return err
	default:
	}
	for _, argv := range [][]string{
		{"systemctl", "--failed", "--no-pager"},
		{"systemctl", "list-jobs", "--no-pager"},
		{"journalctl", "-b", "-n", "50", "--no-pager"},
	} {
		// An error is in the output, and there is another to return.
		out, _ := m.enter(argv...).CombinedOutput()
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return err
}

// stop kills PID 1, with which the kernel kills all that is in the host, and
// removes the group.
func (m *machine) stop() error {
	if m.init != nil {
		_ = m.init.Process.Kill() // it may have ended by itself
		<-m.ended
	}
	if m.ready != nil {
		_ = m.ready.Close() // nothing is read any more
	}
	_ = m.shared.Close() // with its last user the tmpfs goes
	return bed.Destroy(m.group)
}
