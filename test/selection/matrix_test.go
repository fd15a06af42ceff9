// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/tmux"
)

// The table has a command of root's in each line, and whom it means. Each server, orphan and agent was started by the
// client "dev" in the project "shop"; servers and orphans have the conversation "talk-1", which an agent has not.
// The leak and the one that has ended are root's, too, and "other" is a server of another user.
//
// + is meant: it is listed, shown, frozen, thawed or stopped; inspect says how one has ended. A dot is left alone, and not named. A line with NAME
// is run once for each column, with the name of that column.
const table = `
                                                server  session  orphan  leak  other  ended
ls                                              +       +        +       .     .      .
ls --all-users                                  +       +        +       .     +      .
ls --client dev                                 +       +        +       .     .      .
ls --client nobody                              .       .        .       .     .      .
ls --project shop                               +       +        +       .     .      .
ls --project blog                               .       .        .       .     .      .
ls --conversation talk                               +       .        +       .     .      .
ls --conversation walk                               .       .        .       .     .      .
ls --all-users --project shop                   +       +        +       .     +      .
ls --all-users --project blog                   .       .        .       .     .      .
ls --all                                        +       +        +       .     .      +
ls --all --client dev                           +       +        +       .     .      +
ls --all --project shop --conversation talk-1        +       .        +       .     .      +
ls --all --project blog                         .       .        .       .     .      .

top                                             +       +        +       .     .      .
top --all-users                                 +       +        +       .     +      .
top --client nobody                             .       .        .       .     .      .
top --project shop --client dev                 +       +        +       .     .      .
top --conversation talk                              +       .        +       .     .      .
top --all-users --project blog                  .       .        .       .     .      .

metrics                                         +       .        +       .     .      .
metrics --all-users                             +       .        +       .     +      .

logs                                            +       .        +       .     .      +
logs --all-users                                +       .        +       .     +      +
logs --project shop                             +       .        +       .     .      +
logs --project blog                             .       .        .       .     .      .
logs --conversation talk                             +       .        +       .     .      +
logs --conversation walk                             .       .        .       .     .      .
logs --all-users --project shop                 +       .        +       .     +      +
logs --all-users --project blog                 .       .        .       .     .      .
logs NAME                                       +       .        +       .     .      +
logs NAME --project shop                        +       .        +       .     .      +
logs NAME --project blog                        .       .        .       .     .      .
logs NAME --conversation walk                        .       .        .       .     .      .
logs NAME --all-users                           +       .        +       .     +      +
logs NAME --all-users --project blog            .       .        .       .     .      .

inspect NAME                                    +       +        +       .     .      +
inspect NAME --all-users                        +       +        +       .     +      +
set NAME cpu.weight=50                          +       +        +       .     .      .
set NAME cpu.weight=50 --all-users              +       +        +       .     +      .
freeze NAME                                     +       +        +       .     .      .
freeze NAME --all-users                         +       +        +       .     +      .
thaw NAME                                       +       +        +       .     .      .
thaw NAME --all-users                           +       +        +       .     +      .

stop --all                                      +       .        +       .     .      .
stop --all --project shop                       +       .        +       .     .      .
stop --all --project blog                       .       .        .       .     .      .
stop --all --yes --project blog                 .       .        .       .     .      .
stop --all --yes --client nobody                .       .        .       .     .      .
stop --all --yes --conversation walk                 .       .        .       .     .      .
stop --all --yes --all-users --project blog     .       .        .       .     .      .
stop NAME --project blog                        .       .        .       .     .      .
stop NAME --client nobody                       .       .        .       .     .      .
stop NAME --conversation walk                        .       .        .       .     .      .
stop NAME --all-users --project blog            .       .        .       .     .      .
stop NAME                                       +       +        +       .     .      .
stop NAME --project shop --client dev           +       +        +       .     .      .
stop NAME --conversation talk                        +       .        +       .     .      .
stop NAME --all-users --project shop            +       +        +       .     +      .
stop --project shop --yes                       +       .        +       .     .      .
stop --client dev --yes                         +       .        +       .     .      .
stop --conversation talk --yes                       +       .        +       .     .      .
stop --all --yes                                +       .        +       .     .      .
stop --all --yes --all-users --project shop     +       .        +       .     +      .

sweep --dry-run --older-than 0                  .       .        +       +     .      .
sweep --dry-run --older-than 1h                 .       .        .       .     .      .
sweep --dry-run --all-users --older-than 0      .       .        +       +     .      .
sweep --yes --older-than 1h                     .       .        .       .     .      .
sweep --yes --unit no-such.service              .       .        .       .     .      .
sweep --yes --older-than 0                      .       .        +       +     .      .
sweep --yes --all-users --older-than 0          .       .        +       +     .      .
`

func TestMatrix(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	columns := strings.Fields(lines[0])
	w := newWorld(t)
	if !slices.Equal(columns, w.kinds()) {
		t.Fatalf("the columns are %q, and there are %q", columns, w.kinds())
	}
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		command := fields[:len(fields)-len(columns)]
		want := fields[len(command):]
		w.makeAll()
		if command[0] == "thaw" {
			w.freezeAll()
		}
		got := w.meant(command)
		if !slices.Equal(got, want) {
			t.Errorf("%s\n means %v\n  want %v\n%s%s", strings.Join(command, " "), got, want, w.said, w.run([]string{"ls", "--all-users"}))
		}
		w.checkEffect(command, got)
		if command[0] == "freeze" || command[0] == "thaw" {
			w.thawAll()
		}
	}
}

// meant runs a command, and returns a cell for each kind.
func (w *world) meant(command []string) (cells []string) {
	w.t.Helper()
	at := slices.Index(command, "NAME")
	if at < 0 {
		text := w.run(command)
		w.said = text
		for _, k := range w.all {
			cells = append(cells, cell(k.isNamedIn(text)))
		}
		return cells
	}
	cells = make([]string, len(w.all))
	// The orphan comes first: the stop of another one may sweep.
	for _, i := range slices.Concat([]int{theOrphan}, w.allBut(theOrphan)) {
		named := w.all[i]
		line := slices.Clone(command)
		line[at] = named.name
		text := w.run(line)
		cells[i] = cell(named.isNamedIn(text))
		for _, other := range w.all {
			if other != named && other.isNamedIn(text) {
				w.t.Errorf("%q is about the %s:\n%s", line, other.kind, text)
			}
		}
	}
	return cells
}

func cell(isMeant bool) string {
	if isMeant {
		return "+"
	}
	return "."
}

// run returns all that a command prints.
func (w *world) run(command []string) string {
	w.t.Helper()
	cmd := host.Current(w.t).Command(host.Root, append([]string{mcpscope}, command...)...)
	if command[0] == "top" {
		screen := tmux.Start(w.t, 160, 40, cmd, cmd.Start)
		defer screen.Close()
		return strings.Join(screen.Shows("NAME", "q quit"), "\n")
	}
	out, _ := cmd.CombinedOutput() // its status is not that of one kind
	return string(out)
}

// checkEffect fails the test unless exactly those that were meant are stopped, frozen or thawed.
func (w *world) checkEffect(command, cells []string) {
	w.t.Helper()
	line := strings.Join(command, " ")
	isAsked := slices.Contains(command, "--all") && !slices.Contains(command, "--yes")
	stops := command[0] == "stop" && !isAsked || command[0] == "sweep" && !slices.Contains(command, "--dry-run")
	for i, k := range w.all {
		isMeant := cells[i] == "+"
		if k.kind == "ended" {
			continue
		}
		if hasEnded := k.main.Ended(0); hasEnded != (stops && isMeant) {
			w.t.Errorf("%s: the %s has ended: %t", line, k.kind, hasEnded)
		}
		isFrozen := !k.main.Ended(0) && w.isFrozen(k)
		want := command[0] == "freeze" && isMeant || command[0] == "thaw" && !isMeant && k.kind != "leak"
		if isFrozen != want {
			w.t.Errorf("%s: the %s is frozen: %t", line, k.kind, isFrozen)
		}
	}
}
