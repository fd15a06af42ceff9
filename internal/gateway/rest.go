// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/notify"
)

// What a tool has left running keeps the filter for ever, and each program that it executes fails
// when nobody answers. So when the gateway and its servers are gone one process stays for as long as
// any of that lives, and does nothing but let it go on.

// idle is closed when there is nothing left but that.
func (w *watcher) awaitIdle(idle chan struct{}) {
	<-w.ended
	w.resting.Store(true)
	w.followed.Wait()
	close(idle)
}

// rest sends the standby away, and becomes that process. It returns only if it can't.
func (w *watcher) rest() error {
	w.dismiss()
	c := config{
		Name: w.Name, Rest: true, Gateway: -1, Control: -1, Lifeline: -1, Board: -1, Explain: -1, Runner: -1, Listener: w.Listener, Memory: w.Memory,
	}
	memory, err := c.write()
	if err != nil {
		return err
	}
	for _, fd := range append(c.descriptors(), memory) {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	env := []string{"GOMAXPROCS=1", "GOGC=off"} // it allocates next to nothing
	return syscall.Exec(executable, []string{"mcpscope", WatchCommand, strconv.Itoa(memory), strings.TrimSpace(w.Name)}, env)
}

// stay is the whole life of that process.
func (w *watcher) stay() int {
	l, left, err := notify.Open(w.Listener, w.Memory)
	if err == nil {
		err = answerAll(l, left, l.Continue)
	}
	if err != nil {
		return 125
	}
	return 0
}

// answerAll answers what another watcher has left, and what comes until nobody is left to ask.
func answerAll(l *notify.Listener, left []*notify.Request, answer func(*notify.Request)) error {
	for _, r := range left {
		answer(r)
	}
	for {
		r, err := l.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer(r)
	}
}
