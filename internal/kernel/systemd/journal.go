// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// directory contains the sockets of the journal; a test may build with another.
var directory = "/run/systemd/journal"

// ErrNoJournal: this host has no journal.
var ErrNoJournal = errors.New("there is no systemd journal here")

// Priority is a level of syslog(3).
type Priority int

const (
	Warning Priority = 4
	Notice  Priority = 5
	Info    Priority = 6
)

// JournalField is a field of an entry. Name consists of capital letters, digits and "_". Value is any bytes;
// only the first 2048 are sent, because journalctl omits much longer values.
type JournalField struct{ Name, Value string }

const valueMost = 2048

// JournalExists reports whether this process can write to a journal.
func JournalExists() bool { return unix.Access(directory+"/socket", unix.W_OK) == nil }

// SendJournal writes one entry, without empty fields, or fails at once. The length precedes each value, so a
// value cannot contain another field.
func SendJournal(p Priority, fields ...JournalField) error {
	fd, _ := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // -1 can't send
	defer unix.Close(fd)
	var b []byte
	for _, f := range append([]JournalField{{"PRIORITY", strconv.Itoa(int(p))}}, fields...) {
		if f.Value == "" {
			continue
		}
		value := f.Value[:min(len(f.Value), valueMost)]
		b = append(append(b, f.Name...), '\n')
		b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
		b = append(append(b, value...), '\n')
	}
	// Not sendto(2), which some sandboxes refuse.
	return unix.Sendmsg(fd, b, nil, address("socket"), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

func address(name string) unix.Sockaddr { return &unix.SockaddrUnix{Name: directory + "/" + name} }

// JournalStream opens a descriptor whose lines become journal entries of identifier ident. Their priority is
// p, or the prefix of the line ("<4>", sd-daemon(3)). The journal records the calling process as their
// origin.
func JournalStream(ident string, p Priority) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err == nil { // EAGAIN: the queue of connections is full, so the journal does not respond
		err = unix.Connect(fd, address("stdout"))
	}
	if err == nil {
		// The server inherits it.
		_ = unix.Shutdown(fd, unix.SHUT_RD) // the journal sends nothing anyway
		_ = unix.SetNonblock(fd, false)     // it can't fail: the descriptor is open
		// the buffer is empty, so this does not block; the lines are: identifier, unit, priority, whether
		// lines have a priority prefix, and whether to forward to syslog, kernel log and console
		head := fmt.Sprintf("%s\n\n%d\n1\n0\n0\n0\n", strings.ReplaceAll(ident, "\n", " "), p)
		_, err = unix.Write(fd, []byte(head))
	}
	switch err {
	case nil:
		return fd, nil
	case unix.ENOENT, unix.ECONNREFUSED:
		err = ErrNoJournal
	default:
		err = fmt.Errorf("open a stream of the journal: %w", err)
	}
	_ = unix.Close(fd) // nothing was written
	return -1, err
}
