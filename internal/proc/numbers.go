// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"strconv"
)

// numbers converts the fields of one file. The first failure is kept and the rest are carried out for nothing, so
// that a parser reads as a list of fields.
type numbers struct{ err error }

func (n *numbers) fail(text []byte, err error) {
	if n.err == nil {
		n.err = fmt.Errorf("%q: %w", clip(text), err)
	}
}

// int is for pids, counts and device numbers: 32 bits wide in the kernel, and
// -1 where a process of no session is asked for its session.
func (n *numbers) int(text []byte) int {
	v, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		n.fail(text, errors.Unwrap(err)) // without the text, which strconv repeats
	}
	return int(v)
}

func (n *numbers) unsigned(text []byte, base, bits int) uint64 {
	v, err := strconv.ParseUint(string(text), base, bits)
	if err != nil {
		n.fail(text, errors.Unwrap(err))
	}
	return v
}

// signals is for a set of signals. MIPS has 128 of them and prints twice the
// digits; those that we know by name are the last 64 bits.
func (n *numbers) signals(text []byte) uint64 {
	if len(text) == 32 {
		text = text[16:]
	}
	return n.unsigned(text, 16, 64)
}

// state is the letter of a process's state.
func (n *numbers) state(text []byte) byte {
	if len(text) == 0 || text[0]|0x20 < 'a' || text[0]|0x20 > 'z' {
		n.fail(text, errors.New("no letter"))
		return 0
	}
	return text[0]
}

// clip keeps an error about a line that nobody expected readable.
func clip(b []byte) []byte {
	return b[:min(len(b), 64)]
}
