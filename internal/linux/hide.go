// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The field of /proc/PID/stat that proc(5) calls arg_start, counted from the one behind the comm; arg_end is the next.
const statArgStart = 45

// HideArguments overwrites args, which are the last ones of the calling process's command line, so that nobody reads them there any
// more. os.Args loses them as well.
func HideArguments(args []string) error {
	tail := strings.Join(args, "\x00")
	hidden := len(tail)
	if hidden == 0 {
		return nil
	}
	line, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		return fmt.Errorf("read our command line: %w", err)
	}
	if !bytes.HasSuffix(line, []byte("\x00"+tail+"\x00")) {
		return errors.New("our command line ends otherwise")
	}
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return fmt.Errorf("read our stat: %w", err)
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < statArgStart+2 {
		return fmt.Errorf("parse stat: %q", text)
	}
	begin, err := strconv.ParseUint(string(fields[statArgStart]), 10, 64)
	end, endErr := strconv.ParseUint(string(fields[statArgStart+1]), 10, 64)
	if err != nil || endErr != nil || end-begin != uint64(len(line)) {
		return errors.New("our command line is not where the kernel says")
	}
	at := begin + uint64(len(line)-1-hidden)
	nothing := make([]byte, hidden)
	local := []unix.Iovec{{Base: &nothing[0]}}
	local[0].SetLen(hidden)
	n, err := unix.ProcessVMWritev(os.Getpid(), local, []unix.RemoteIovec{{Base: uintptr(at), Len: hidden}}, 0)
	if err == nil && n < hidden {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("overwrite our command line: %w", err)
	}
	return nil
}
