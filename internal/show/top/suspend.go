// SPDX-License-Identifier: Apache-2.0

//go:build linux

package top

import (
	"io"
	"os"
	"os/signal"
	"runtime"

	"charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// suspend is what ^Z does, where there is a shell that could continue us.
func suspend() tea.Cmd {
	parent := os.Getppid()
	session, err := unix.Getsid(0)
	theirs, theirErr := unix.Getsid(parent)
	group, groupErr := unix.Getpgid(parent)
	if err != nil || theirErr != nil || groupErr != nil || theirs != session || group == unix.Getpgrp() {
		return nil
	}
	return tea.Exec(stop{}, func(error) tea.Msg { return continued{} }) // a terminal that can't be had again has gone, and is noticed
}

// stop stops the process group until it is continued, while Bubble Tea has let go of the terminal. Its own tea.Suspend may leave an empty
// screen: the renderer that was told to end stops its ticker later, perhaps when the process has been continued, and the ticker is that
// of the next renderer by then (charmbracelet/bubbletea issue 1778). So whatever can run runs first: with one processor left to Go,
// all that were running on others are in the queue that we go to the end of.
type stop struct{}

func (stop) Run() error {
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

func (stop) SetStdin(io.Reader) {}

func (stop) SetStdout(io.Writer) {}

func (stop) SetStderr(io.Writer) {}
