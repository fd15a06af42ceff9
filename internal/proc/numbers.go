// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"strconv"
)

// numbers converts the fields of one file, the letter of the state among them. The first failure is kept and the
// rest are carried out for nothing, so that a parser reads as a list of fields.
type numbers struct{ err error }

func (n *numbers) fail(field string, text []byte, err error) {
	if n.err == nil {
		n.err = fmt.Errorf("%s %q: %w", field, clip(text), reason(err))
	}
}

// int is for pids, counts and device numbers: 32 bits wide in the kernel, and
// -1 where a process of no session is asked for its session.
func (n *numbers) int(field string, text []byte) int {
	v, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		n.fail(field, text, err)
	}
	return int(v)
}

// id is for uids and gids: all 32 bits are used, (uid_t)-1 too.
func (n *numbers) id(field string, text []byte) int {
	v, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil {
		n.fail(field, text, err)
	}
	return int(v)
}

func (n *numbers) uint64(field string, text []byte) uint64 {
	v, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		n.fail(field, text, err)
	}
	return v
}

// signals is for a set of signals in hexadecimal. MIPS has 128 of them and
// prints twice the digits; those that we know by name are the last 64 bits.
func (n *numbers) signals(field string, text []byte) uint64 {
	if len(text) == 32 {
		text = text[16:]
	}
	v, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		n.fail(field, text, err)
	}
	return v
}

// state is for the letter of a process's state, and is at its head: status
// explains it ("S (sleeping)").
func (n *numbers) state(field string, text []byte) byte {
	if len(text) == 0 || !isLetter(text[0]) {
		n.fail(field, text, errors.New("no letter"))
		return 0
	}
	return text[0]
}

func isLetter(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// reason takes strconv's own words off ("strconv.ParseInt: parsing …: "),
// which would repeat what fail has said already.
func reason(err error) error {
	if e, ok := err.(*strconv.NumError); ok {
		return e.Err
	}
	return err
}

// clip keeps an error about a line that nobody expected readable.
func clip(b []byte) []byte {
	return b[:min(len(b), 64)]
}
