// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// channels are what clients give their servers as stdin and stdout.
var channels = map[string]func() (theirs, ours *os.File, err error){
	"pipe":       func() (theirs, ours *os.File, err error) { return os.Pipe() },
	"socketpair": socketpair,
}

func socketpair() (theirs, ours *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	err = unix.SetNonblock(fds[1], true) // ours has deadlines, as a pipe has
	return os.NewFile(uintptr(fds[0]), "theirs"), os.NewFile(uintptr(fds[1]), "ours"), err
}

// A talk is a server with its client's ends of stdin and stdout.
type talk struct {
	cmd     *exec.Cmd
	in, out *os.File
	errs    *os.File
	// what /proc calls the server's ends
	inLink, outLink string
}

// startTalk starts a command with a channel of that kind at either end.
func startTalk(t *testing.T, site *escape.Site, kind string, command []string) *talk {
	t.Helper()
	theirIn, in, err := channels[kind]()
	if err != nil {
		t.Fatal(err)
	}
	defer theirIn.Close()
	theirOut, out, err := channels[kind]()
	if err != nil {
		t.Fatal(err)
	}
	if kind == "pipe" {
		theirOut, out = out, theirOut // the other way round
	}
	defer theirOut.Close()
	errs, err := escape.OpenMemory("stderr")
	if err != nil {
		t.Fatal(err)
	}
	k := &talk{cmd: site.Command(command...), in: in, out: out, errs: errs}
	k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = theirIn, theirOut, errs
	t.Cleanup(func() {
		in.Close()
		out.Close()
		_ = k.cmd.Process.Kill() // it may have ended
		_ = k.cmd.Wait()         // killed
		errs.Close()
	})
	k.inLink, k.outLink = link(t, theirIn), link(t, theirOut)
	site.Start(site.Unique("client"), k.cmd)
	for _, f := range []*os.File{in, out} {
		if err := f.SetDeadline(time.Now().Add(8 * escape.Patience)); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// ended waits for the command and returns its status.
func (k *talk) ended(t *testing.T) syscall.WaitStatus {
	t.Helper()
	if err := finish(k.cmd); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(k.errs))
	}
	if said := escape.Contents(k.errs); said != "" {
		t.Errorf("on stderr: %s", said)
	}
	return k.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func link(t *testing.T, f *os.File) string {
	t.Helper()
	to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return to
}
