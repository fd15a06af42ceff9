// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"strings"
	"testing"
	"unsafe"
)

func TestInterpreter(t *testing.T) {
	for line, want := range map[string]string{
		"#!/bin/sh": "/bin/sh", "#! /usr/bin/python3 -I": "/usr/bin/python3", "#!/usr/bin/env node": "node",
		"#!/usr/bin/env -S A=1 deno run": "deno", "#!": "", "#!/usr/bin/env": "", "\x7fELF": "", "": "",
	} {
		if got := interpreter([]byte(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// What is read of a caller may be anything, and be anywhere.
func TestMemory(t *testing.T) {
	long := append([]byte(strings.Repeat("x", 5*page)), 0)
	got, err := stringAt(os.Getpid(), uint64(uintptr(unsafe.Pointer(&long[0]))))
	if err != nil || len(got) < bytesMost || len(got) >= len(long) {
		t.Errorf("%d bytes of a long string (%v)", len(got), err)
	}
	word := []byte("word\x00")
	pointers := []uintptr{uintptr(unsafe.Pointer(&word[0])), uintptr(unsafe.Pointer(&word[0])), 0}
	all, err := stringsAt(os.Getpid(), uint64(uintptr(unsafe.Pointer(&pointers[0]))))
	if err != nil || strings.Join(all, " ") != "word word" {
		t.Errorf("%q, %v", all, err)
	}
	for _, nowhere := range []uint64{0, 8, 1 << 63, 0xfffffffffffffff0} {
		if s, err := stringAt(os.Getpid(), nowhere); err == nil {
			t.Errorf("there is %q at %x", s, nowhere)
		}
	}
	if all, err := stringsAt(os.Getpid(), 0); len(all) > 0 || err != nil {
		t.Errorf("%q without arguments (%v)", all, err)
	}
}
