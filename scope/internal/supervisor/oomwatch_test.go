// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"testing"

	"github.com/mcpscope/mcpscope/scope/internal/report"
)

func TestBiggest(t *testing.T) {
	s := &oomWatch{seen: map[int]report.Consumer{}}
	for pid := 1; pid <= 2*consumersMost; pid++ {
		s.add(report.Consumer{PID: pid, Name: "p", Bytes: uint64(pid) << 20})
	}
	s.add(report.Consumer{PID: 3, Name: "grown", Bytes: 1 << 40})
	s.add(report.Consumer{PID: 3, Name: "", Bytes: 1}) // a zombie that has no memory left, and then no name
	s.add(report.Consumer{PID: 99, Name: "nothing", Bytes: 0})
	all := s.biggest()
	if len(all) != consumersMost || all[0] != (report.Consumer{PID: 3, Name: "grown", Bytes: 1 << 40}) || all[1].PID != 2*consumersMost {
		t.Errorf("%v", all)
	}
}
