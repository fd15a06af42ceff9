// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
)

func BenchmarkStart(b *testing.B) {
	for _, detach := range []bool{false, true} {
		name := "child"
		if detach {
			name = "detached"
		}
		b.Run(name, func(b *testing.B) {
			unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
			for range b.N {
				pid, err := (&Cmd{Path: "/bin/true", Argv: []string{"true"}, Detach: detach}).Start()
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				raw.Reap(pid)
				b.StartTimer()
			}
		})
	}
	b.Run("syscall.ForkExec", func(b *testing.B) {
		for range b.N {
			pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			raw.Reap(pid)
			b.StartTimer()
		}
	})
}
