// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"math"
	"testing"
)

const limits = `Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file locks            7881299347898368     unlimited            locks     
Max open files            1024                 524288               files     
`

func TestParseLimit(t *testing.T) {
	for name, want := range map[string]uint64{"Max cpu time": math.MaxUint64, LimitLocks: 7881299347898368, "Max open files": 1024} {
		if got, ok := ParseLimit([]byte(limits), name); got != want || !ok {
			t.Errorf("%s is %d (%v), want %d", name, got, ok, want)
		}
	}
	for _, text := range []string{"", "\n", "Max file locks", "Max file locks ", "Max file locks  x y locks\n", "Max file locksmith 1 2 x\n", "Max file locks 99999999999999999999 1 l\n"} {
		if got, ok := ParseLimit([]byte(text), LimitLocks); ok {
			t.Errorf("%q gives %d", text, got)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	f.Add([]byte(limits), LimitLocks)
	f.Fuzz(func(_ *testing.T, b []byte, name string) { ParseLimit(b, name) })
}
