// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"strings"
	"time"
)

const (
	// within is how long a server may take to be gone: clients wait for 2 to 5 s before they kill.
	within = 4 * time.Second
	// starts is how often each contender is started, in turn.
	starts = 15
)

// row is what the page says of a contender.
type row struct {
	name, better       string
	cells, clean, left int
	byEnd              map[string]int
	start              time.Duration
	problem            string
	ours               bool
}

// writePage makes the page of what was found on a host.
func writePage(rows []row, modes, ends []string, kernel string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What one would take instead

`+"`make compare`"+` makes this page: it puts a server below each of these, with the best flags that it has, and ends it. A server tries to stay alive in %d ways,
which take nothing but fork and signals: %s. It is ended in %d ways: its stdin is closed; the process that
the client has started gets SIGTERM, or SIGKILL; its process group, or its process tree, or its client gets SIGKILL. After %v the processes that are left
are counted. Ways that start each other again without end are not among them: below most of these they would fill the host.

![Ways to stay alive and to end, with nothing left](comparison.svg)

The numbers are cells with nothing left, of %d for each end. *Start* is how much longer a program takes that ends at once, median of %d. Linux %s, as root, on a
machine with two processors that had other things to do.

| below | %s | of %d | left | start |
|---|%s---|---|---|
`, len(modes), strings.Join(modes, ", "), len(ends), within, len(modes), starts, kernel, strings.Join(ends, " | "), len(modes)*len(ends), strings.Repeat("---|", len(ends)))
	for _, r := range rows {
		if r.problem != "" {
			fmt.Fprintf(&b, "| %s |%s | | |\n", r.name, strings.Repeat(" |", len(ends)))
			continue
		}
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, end := range ends {
			fmt.Fprintf(&b, " %d |", r.byEnd[end])
		}
		fmt.Fprintf(&b, " **%d** | %d | %+.1f ms |\n", r.clean, r.left, float64(r.start.Microseconds())/1000)
	}
	for _, r := range rows {
		if r.problem != "" {
			fmt.Fprintf(&b, "\nSkipped: %s, %s.\n", r.name, r.problem)
		}
	}
	b.WriteString(`
## What they are better at

| | |
|---|---|
`)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.name, r.better)
	}
	b.WriteString(`
## Why they leave what they leave

- **Process groups** (a killer of process groups, tini, dumb-init): ` + "`setsid`" + ` and a double fork leave the group. Killed with SIGKILL, they kill nobody.
- **A signal at the parent's death** (setpriv) reaches the main process alone, and not what it has started.
- **A pid namespace** (unshare, bwrap, firejail, containers) ends with its first process, whatever is in it. But nobody watches the client: a server that ignores the end of
  its input stays, and where SIGTERM is not passed on, or is ignored, it does as well. A container outlives the runtime's command when that is killed.
- **A scope** (systemd-run --scope) has all processes, and nobody who ends it. **A service** (systemd-run --pipe) is ended by the manager when the main process exits, and
  is not ended when the client, or systemd-run itself, is ended.
- **mcpscope** has two processes that watch the client, the group and each other, and ends the group when one of the other two is gone.

A sandbox and mcpscope go together: ` + "`mcpscope run -- bwrap … npx …`" + `.
`)
	return b.String()
}

// The picture's measures.
const (
	lineHeight = 26
	labelWidth = 210
	barWidth   = 520
)

// draw is the picture: a bar for each contender, the part with nothing left in front.
func draw(rows []row) string {
	var b strings.Builder
	height := 40 + lineHeight*len(rows)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<title>Cells with nothing left</title>
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text x="%d" y="20" fill="#444444">nothing left</text><rect x="%d" y="10" width="12" height="12" fill="#2a7f62"/>
<text x="%d" y="20" fill="#444444">processes left</text><rect x="%d" y="10" width="12" height="12" fill="#d9a39a"/>
`, labelWidth+barWidth+90, height, labelWidth+18, labelWidth, labelWidth+148, labelWidth+130)
	for i, r := range rows {
		y := 34 + lineHeight*i
		weight := "normal"
		if r.ours {
			weight = "bold"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" font-weight="%s" fill="#222222">%s</text>`+"\n", labelWidth-10, y+14, weight, r.name)
		if r.cells == 0 {
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#888888">skipped</text>`+"\n", labelWidth, y+14)
			continue
		}
		clean := barWidth * r.clean / r.cells
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="18" fill="#d9a39a"/><rect x="%d" y="%d" width="%d" height="18" fill="#2a7f62"/>`+
			`<text x="%d" y="%d" fill="#222222">%d of %d</text>`+"\n", labelWidth, y, barWidth, labelWidth, y, clean, labelWidth+barWidth+8, y+14, r.clean, r.cells)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
