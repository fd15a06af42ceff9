// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Status is what a watcher knows of its gateway, for people. Fields are only ever added.
type Status struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"` // when it was watched
	// Servers is how many were taken so far.
	Servers int `json:"servers_taken"`
	// Taken are the latest of them.
	Taken []TakenServer `json:"taken,omitempty"`
	// Weaker says why servers may be missed that would be found elsewhere.
	Weaker []string `json:"weaker,omitempty"`
	// Left are programs that were not taken, the latest first.
	Left []LeftProgram `json:"left,omitempty"`

	Told bool `json:"told,omitempty"` // the journal, that there are none

	UID     int `json:"uid"`         // of the watcher
	Watcher int `json:"watcher_pid"` // one of them
}

// TakenServer is one that was put into a group.
type TakenServer struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// LeftProgram is a program that was started below the gateway, and is no server.
type LeftProgram struct {
	Program string    `json:"program"`
	Reason  string    `json:"reason"`
	Count   int       `json:"count"`
	Last    time.Time `json:"last"`
}

// board is memory that the watcher, its standby and whoever asks share: the status as text, and the
// candidates for whoever takes over.
type board struct {
	mem []byte

	mu     sync.Mutex
	status Status
	due    bool // it is to be written
}

const (
	boardName  = "mcpscope-gateway" // of the memory file
	statusMost = 64 << 10
	headSize   = 4096
	// Two texts, of which one is whole at any time; a number at the beginning says which.
	statusAt  = headSize
	entriesAt = statusAt + 2*statusMost
	entries   = 4096
	boardSize = entriesAt + entries*int(unsafe.Sizeof(entry{}))

	leftMost    = 32 // kinds of programs
	takenMost   = 64
	publishEach = 100 * time.Millisecond
)

// entry is a candidate for whoever takes over. One with tag 0 is none.
type entry struct {
	Tag, Outer uint64
	Start      uint64
	Dev, Ino   uint64
	PID        int32
	State      int32
}

func newBoard() (fd int, err error) {
	fd, err = unix.MemfdCreate(boardName, unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, int64(boardSize))
	}
	if err != nil {
		return -1, fmt.Errorf("create memory file: %w", err)
	}
	return fd, nil
}

// openBoard maps it, and goes on with the status that is there.
func openBoard(fd int, fresh Status) (*board, error) {
	mem, err := unix.Mmap(fd, 0, boardSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map memory file: %w", err)
	}
	b := &board{mem: mem, status: fresh}
	if before, err := parseStatus(mem[:entriesAt]); err == nil {
		b.status = before
	}
	b.publish()
	return b, nil
}

func (b *board) turn() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b.mem[0])) }

// change changes the status, which is written a moment later.
func (b *board) change(do func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do(&b.status)
	if !b.due {
		b.due = true
		time.AfterFunc(publishEach, b.publish)
	}
}

func (b *board) publish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = false
	text, err := json.Marshal(&b.status)
	if err != nil || len(text) > statusMost-4 {
		return // it can't be: its parts are bounded
	}
	turn := b.turn().Load() + 1
	half := b.mem[statusAt+int(turn%2)*statusMost:][:statusMost]
	binary.NativeEndian.PutUint32(half, uint32(len(text)))
	copy(half[4:], text)
	b.turn().Store(turn)
}

// parseStatus reads the text of a board, which anybody may have written.
func parseStatus(mem []byte) (s Status, err error) {
	if len(mem) < entriesAt {
		return s, unix.EBADMSG
	}
	turn := binary.NativeEndian.Uint64(mem)
	half := mem[statusAt+int(turn%2)*statusMost:][:statusMost]
	length := binary.NativeEndian.Uint32(half)
	if turn == 0 || length > statusMost-4 {
		return s, unix.EBADMSG
	}
	return s, json.Unmarshal(half[4:4+length], &s)
}

// left counts what was not taken.
func (b *board) left(argv []string, why string) {
	program := "?"
	if len(argv) > 0 {
		program = clipped(path.Base(argv[0]), 64)
	}
	why = clipped(why, 256)
	b.change(func(s *Status) {
		i := slices.IndexFunc(s.Left, func(l LeftProgram) bool { return l.Program == program && l.Reason == why })
		l := LeftProgram{Program: program, Reason: why}
		if i >= 0 {
			l = s.Left[i]
			s.Left = slices.Delete(s.Left, i, i+1)
		}
		l.Count++
		l.Last = time.Now().UTC().Truncate(time.Second)
		s.Left = slices.Insert(s.Left, 0, l)
		s.Left = s.Left[:min(len(s.Left), leftMost)]
	})
}

// taken counts a server.
func (b *board) taken(id, name, why string) {
	b.change(func(s *Status) {
		s.Servers++
		s.Taken = append(s.Taken, TakenServer{id, clipped(name, 128), clipped(why, 256)})
		s.Taken = s.Taken[max(0, len(s.Taken)-takenMost):]
	})
}

// weaker notes once why servers may be missed.
func (b *board) weaker(why string) {
	b.mu.Lock()
	known := slices.Contains(b.status.Weaker, why)
	b.mu.Unlock()
	if !known {
		b.change(func(s *Status) { s.Weaker = append(s.Weaker, clipped(why, 256)) })
	}
}

func clipped(s string, most int) string { return s[:min(len(s), most)] }

// all are the entries. Each belongs to the candidate that has its index.
func (b *board) all() *[entries]entry { return (*[entries]entry)(unsafe.Pointer(&b.mem[entriesAt])) }
