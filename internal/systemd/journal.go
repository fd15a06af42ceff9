// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// directory of the sockets; a test may build with another.
var directory = "/run/systemd/journal"

// ErrNoJournal says that there is no journal on this host.
var ErrNoJournal = errors.New("there is no systemd journal here")

// Priority is syslog's.
type Priority int

const (
	Warning Priority = 4
	Notice  Priority = 5
	Info    Priority = 6
)

// JournalField is one of an entry. Its name is of capital letters, digits and "_"; its value may be
// any bytes, of which the first 2048 are sent: journalctl leaves out what is much longer.
type JournalField struct{ Name, Value string }

const valueMost = 2048

// JournalExists tells whether there is a journal to write to.
func JournalExists() bool { return unix.Access(directory+"/socket", unix.W_OK) == nil }

// JournalEntry is what SendJournal takes. Each value has its length before it, so none can be taken for
// another field.
func JournalEntry(p Priority, fields ...JournalField) []byte {
	var b []byte
	for _, f := range append([]JournalField{{"PRIORITY", strconv.Itoa(int(p))}}, fields...) {
		value := f.Value[:min(len(f.Value), valueMost)]
		b = append(append(b, f.Name...), '\n')
		b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
		b = append(append(b, value...), '\n')
	}
	return b
}

// SendJournal writes one entry, or fails at once.
func SendJournal(entry []byte) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("create socket: %w", err)
	}
	defer unix.Close(fd)
	// Linux 2.2. MSG_NOSIGNAL is for streams, and costs nothing
	err = unix.Sendto(fd, entry, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: directory + "/socket"})
	return explain("write to the journal", err)
}

// streamBuffer is what sd_journal_stream_fd asks for; the kernel may give less.
const streamBuffer = 8 << 20

// JournalStream opens a descriptor whose lines get to the journal as ident's, of the priority that
// is told or that a line begins with ("<4>", sd-daemon(3)). The process that opens it counts
// as their origin.
func JournalStream(ident string, p Priority) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("create socket: %w", err)
	}
	if err = open(fd, ident, p); err != nil {
		_ = unix.Close(fd) // nothing was written
		return -1, err
	}
	return fd, nil
}

func open(fd int, ident string, p Priority) error {
	// EAGAIN: too many wait to be accepted, so it hangs
	err := unix.Connect(fd, &unix.SockaddrUnix{Name: directory + "/stdout"})
	if err != nil {
		return explain("connect to the journal", err)
	}
	if err := unix.Shutdown(fd, unix.SHUT_RD); err != nil {
		return fmt.Errorf("shut the journal's side: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, streamBuffer) // with less it works as well
	// into an empty buffer; the lines are: identifier, unit, priority, whether a line may
	// tell its own, and whether to pass it on to syslog, the kernel, the console
	head := fmt.Sprintf("%s\n\n%d\n1\n0\n0\n0\n", strings.ReplaceAll(ident, "\n", " "), p)
	if _, err := unix.Write(fd, []byte(head)); err != nil {
		return fmt.Errorf("introduce ourselves to the journal: %w", err)
	}
	if err := unix.SetNonblock(fd, false); err != nil { // it would be the server's
		return fmt.Errorf("make the journal's stream blocking: %w", err)
	}
	return nil
}

func explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		return ErrNoJournal
	}
	return fmt.Errorf("%s: %w", what, err)
}
