// SPDX-License-Identifier: Apache-2.0

//go:build linux

package top

import (
	"io"
	"os"
	"os/signal"
	"runtime"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// suspend is the action of ^Z if a shell can continue this process.
func suspend() tea.Cmd {
	parent := os.Getppid()
	session, err := unix.Getsid(0)
	theirs, theirErr := unix.Getsid(parent)
	group, groupErr := unix.Getpgid(parent)
	if err != nil || theirErr != nil || groupErr != nil || theirs != session || group == unix.Getpgrp() {
		return nil
	}
	// an error means a lost terminal, which the next draw reports
	return tea.Exec(suspension{}, func(error) tea.Msg { return unix.SIGCONT })
}

// suspension stops the process group until it is continued, while Bubble Tea has released the terminal.
// tea.Suspend may leave an empty screen: the old renderer stops its ticker too late, when the ticker already
// belongs to the next renderer (charmbracelet/bubbletea issue 1778). With GOMAXPROCS 1, all runnable
// goroutines run first.
type suspension struct{}

func (suspension) Run() error {
	processors := runtime.GOMAXPROCS(1)
	runtime.Gosched()
	runtime.GOMAXPROCS(processors)
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGCONT)
	defer signal.Stop(c)
	if err := unix.Kill(0, unix.SIGTSTP); err != nil {
		return err
	}
	<-c
	return nil
}

func (suspension) SetStdin(io.Reader)  {}
func (suspension) SetStdout(io.Writer) {}
func (suspension) SetStderr(io.Writer) {}
