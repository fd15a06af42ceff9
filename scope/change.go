//go:build linux

package scope

import (
	"fmt"

	"github.com/mcpscope/mcpscope/resources"
)

// Changed is a limit of a server that was set while it ran.
type Changed struct {
	File, Before, Now string
	// Late: what members had before is not counted, as nobody has counted it.
	Late bool
}

// Limit sets a limit of a server that runs.
func (s *Listed) Limit(l resources.Limit) (Changed, error) { return s.LimitBy(l, nil) }

// LimitBy is Limit with another way to write the files, which takes those that it knows: for the
// others it returns false. Whether a limit holds is read from the file in any case.
func (s *Listed) LimitBy(l resources.Limit, write func(resources.Limit) (bool, error)) (Changed, error) {
	if s.group == nil {
		return Changed{}, errNoGroup
	}
	counted := resources.Enabled(s.group.payload, l.File)
	c := Changed{File: l.File}
	if !counted && l.None() {
		c.Now = l.Value
		return c, nil
	}
	if counted {
		c.Before, _ = resources.Read(s.group.payload, l.File) // if there is no such file, setting it says so
	}
	var held []string
	all := resources.Limits{Files: []resources.Limit{l}, OOMGroup: !counted} // as with a server that starts
	for each := range all.All(&held) {
		now, err := s.group.limitBy(each, s.Backend, write)
		if err != nil {
			return c, err
		}
		if each == l {
			c.Now = now
		}
		held = append(held, each.File)
	}
	c.Late = !counted && resources.Counts(l.File)
	s.group.limited(held)
	return c, nil
}

// Shortages are what a server lacked so far.
type Shortages struct {
	OOMKills    uint64              `json:"oom_kills,omitempty"`
	PIDsRefused uint64              `json:"pids_refused,omitempty"`
	Pressure    map[string]Pressure `json:"pressure,omitempty"`
}

// Shortages reads the kernel's figures.
func (s *Listed) Shortages() Shortages {
	if s.group == nil {
		return Shortages{}
	}
	short := Shortages{OOMKills: s.group.oomKills(), Pressure: s.group.pressure()}
	short.PIDsRefused, _ = s.group.pidsRefused()
	return short
}

func (c Changed) String() string {
	text := fmt.Sprintf("%s=%s", c.File, c.Now)
	if c.Before != "" {
		text += ", was " + c.Before
	}
	if c.Late {
		text += "; what it has already is not counted"
	}
	return text
}
