//go:build linux

package scope

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/resources"
)

// LimitError says that a limit can't hold here. Step is what would make it, "" if that is not
// known.
type LimitError struct{ Text, Step string }

func (e *LimitError) Error() string { return e.Text }

// errNoGroup: a process tree has nothing that the kernel could limit.
var errNoGroup = &LimitError{Text: "the backend tree has no group that could be limited", Step: "mcpscope doctor says which other backend there could be; --limits=best-effort goes on without"}

func limitFields(w *wire, l *resources.Limits) {
	count := len(l.Files)
	number(w, &count)
	if w.decodes {
		if count < 0 || count > len(w.buf) || w.err != nil { // each takes two bytes at least
			w.err = errMalformed
			return
		}
		l.Files = slices.Grow([]resources.Limit(nil), count)[:count]
	}
	for i := range l.Files {
		text(w, &l.Files[i].File)
		text(w, &l.Files[i].Value)
	}
	flag(w, &l.OOMGroup)
	flag(w, &l.BestEffort)
}

// limit makes the limits hold before there is a main process. It is for the supervisor to do: in
// a scope the group has processes of its own until that is in its leaf.
func (s *supervisor) limit() error {
	var held []string
	for l := range s.config.Limits.All(&held) {
		_, err := s.group.limit(l, s.backend)
		switch {
		case err == nil:
			held = append(held, l.File)
		case !s.config.Limits.BestEffort:
			return err
		default:
			s.note("not limited: " + explained(err))
		}
	}
	if f := s.group.figures(); f != nil && len(held) > 0 {
		f.limited(held)
		s.short = watchShortage(f.payload)
	}
	return nil
}

// explained is an error with its step, on one line.
func explained(err error) string {
	var limit *LimitError
	if errors.As(err, &limit) && limit.Step != "" {
		return oneLine(err) + " (" + limit.Step + ")"
	}
	return oneLine(err)
}

func (g *controlGroup) limit(l resources.Limit, from Backend) (string, error) {
	return g.limitBy(l, from, nil)
}

func (g *controlGroup) limitBy(l resources.Limit, from Backend, write func(resources.Limit) (bool, error)) (string, error) {
	now, err := resources.SetBy(g.payload, l, g.ownedAbove(from), write)
	if err != nil {
		err = limitError(l, err, from)
	}
	return now, err
}

// limitError is why a limit can't be set, and what would make it possible.
func limitError(l resources.Limit, err error, from Backend) error {
	step := ""
	var missing *resources.MissingError
	if errors.As(err, &missing) {
		step = missingStep(missing, from)
	}
	return &LimitError{Text: fmt.Sprintf("set %s: %v", l, err), Step: step}
}

// ownedAbove counts the directories above the payload whose subtree_control is ours to write:
// the group, and those of the backend cgroup that we make.
func (g *controlGroup) ownedAbove(from Backend) int {
	if from != Cgroup {
		return 1
	}
	users, err := g.top.Parent()
	if err != nil {
		return 1
	}
	defer users.Close()
	slice, err := users.Parent()
	if err != nil {
		return 2
	}
	defer slice.Close()
	if ofSystemd(slice) {
		return 2
	}
	return 3
}

// ofSystemd goes by a mark that systemd (238) puts on the groups of its units.
func ofSystemd(g *cgroup.Group) bool {
	_, marked, _ := g.Attr("trusted.invocation_id") // only root can read it, and only root has such groups
	return marked
}

func (g *controlGroup) limited(files []string) {
	all := g.limitedFiles()
	for _, f := range files {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	_ = g.payload.SetAttr(attrLimits, strings.Join(all, " ")) // for people only
}

func (g *controlGroup) limitedFiles() []string {
	text, _, _ := g.payload.Attr(attrLimits) // none, if it can't be read
	return strings.Fields(text)
}

// limitsMost are more than there are files to be set.
const limitsMost = 64

// limitsNow are what the files say that have been set. Any process of that uid may have named
// them.
func (g *controlGroup) limitsNow() map[string]string {
	var all map[string]string
	files := g.limitedFiles()
	for _, file := range files[:min(len(files), limitsMost)] {
		if strings.ContainsRune(file, '/') {
			continue
		}
		now, err := resources.Read(g.payload, file)
		if err != nil {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[file] = now
	}
	return all
}
