// SPDX-License-Identifier: Apache-2.0

//go:build linux

package show

import (
	"fmt"
	"io"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// lookAtAll leaves out what has ended meanwhile.
func MeasureAll(servers []*fleet.Listed) []Server {
	views := []Server{}
	for _, s := range servers {
		if v, err := Measure(s); err == nil {
			views = append(views, v)
		}
	}
	return views
}

func WriteTable(out io.Writer, views []Server, users bool, width int) {
	if len(views) == 0 {
		return
	}
	rows := make([]Row, len(views))
	for i, v := range views {
		rows[i].Server = v
	}
	columns := Without(Columns(), "CPU%")
	if !users {
		columns = Without(columns, "UID")
	}
	for _, line := range Table(columns, rows, width) {
		fmt.Fprintln(out, line)
	}
}

// columns are all that tables about servers have.
func Columns() []Column {
	return []Column{
		{Head: "ID", text: func(r Row) string { return r.ID }},
		{Head: "NAME", text: func(r Row) string { return r.Name }, Least: 10, Most: 32},
		{Head: "STATE", text: func(r Row) string { return string(r.State) }},
		{Head: "AGE", text: func(r Row) string { return HumanSeconds(r.Age) }},
		{Head: "PROCS", text: func(r Row) string { return strconv.Itoa(r.Processes) }},
		{Head: "CPU%", text: func(r Row) string { return r.Share() }},
		{Head: "CPU", text: func(r Row) string { return HumanSeconds(r.CPU) }},
		{Head: "MEMORY", text: func(r Row) string { return MemoryText(r.Server) }},
		{Head: "CLIENT", text: func(r Row) string { return ClientText(r.Client) }, Least: 12, Most: 24, Clip: FitName},
		{Head: "BACKEND", text: func(r Row) string { return string(r.Backend) }},
		{Head: "UID", text: func(r Row) string { return strconv.Itoa(r.UID) }},
	}
}

func ClientText(c Process) string { return fmt.Sprintf("%s[%d]", c.Name, c.PID) }
