// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/remedy"
)

// WhyNotStarted returns why a service is not restarted with its drop-in, and how it is seen whether its
// servers can be contained. The reason is "" for a service that the caller should restart.
func (g Gateway) WhyNotStarted() (reason, next string) {
	const unknown = ", and was not started: it is not known whether its servers can be contained"
	switch {
	case isJob(g.service):
		reason = g.service.Name + " is Type=oneshot" + unknown
		next = "after its next start: " + journalctl() + " -u " + cli.Word(g.service.Name)
	case g.service.ActiveState == "inactive": // a person has stopped it, or has never started it
		name := cli.Word(g.Name.Entered)
		reason = g.service.Name + " does not run" + unknown
		next = systemctl() + " start " + name +
			" && mcpscope units --unit " + name + " --install --now"
	}
	return reason, next
}

// RestartStep starts the service with its drop-in.
func (g Gateway) RestartStep() Step {
	return step("restart "+cli.Word(g.Name.Entered), func(c *systemd.Conn) error {
		err := c.Restart(g.Name.Full)
		if !errors.Is(err, systemd.ErrJob) {
			return err
		}
		s, errRead := readService(c, g.Name)
		if errRead != nil {
			return errors.Join(err, errRead)
		}
		return notRunning(s)
	})
}

// Trial is a gateway some time after its start.
type Trial struct {
	Containment
	MainPID int
	Servers int // as many as it has started by then
}

// A gateway that cannot run below mcpscope ends within a second or two, and most start their first server
// by then. A watcher needs some milliseconds to find out, and longer on a machine that is very busy.
const (
	triedFor      = 3 * time.Second
	decidedWithin = 2 * time.Minute
	lookEvery     = 100 * time.Millisecond
)

// Try watches the service, which was just started, until its first server is contained, or for some seconds.
// The error is of a service that has ended meanwhile, or that was started again. count counts the servers of
// its main process.
func (g Gateway) Try(count func(pid int) int) (Trial, error) {
	c, err := systemd.Connect(systemd.Own())
	if err != nil {
		return Trial{}, err
	}
	defer c.Close()
	return g.trying(c, count, findContainment).await()
}

func (g Gateway) trying(c *systemd.Conn, count func(pid int) int, judge judge) trying {
	read := func() (systemd.Service, error) { return readService(c, g.Name) }
	return trying{count: count, read: read, judge: judge}
}

// judge decides about a service. The error is of one that does not run.
type judge func(systemd.Service) (Containment, error)

// findRunning is a judge of a service without mcpscope.
func findRunning(s systemd.Service) (Containment, error) {
	switch {
	case s.ActiveState == "active":
		return Containment{State: containment.Contained}, nil
	case isChanging(s):
		return Containment{State: containment.Undecided}, nil
	}
	return Containment{}, notRunning(s)
}

// trying has the sources of Try.
type trying struct {
	count func(pid int) int
	read  func() (systemd.Service, error)
	judge judge
}

func (t trying) await() (Trial, error) {
	began := time.Now()
	first := ""
	for {
		s, err := t.read()
		if err != nil {
			return Trial{}, err
		}
		if first == "" {
			first = s.Invocation
		}
		switch {
		case s.SubState == "auto-restart", s.Invocation != first && s.Process.Result != "success":
			return Trial{}, notRunning(s)
		case s.Invocation != first:
			return Trial{}, fmt.Errorf("%s has ended soon after its start, and was started again", s.Name)
		}
		c, err := t.judge(s)
		if err != nil {
			return Trial{}, err
		}
		servers := t.count(s.Process.PID)
		tried := time.Since(began)
		isDecided := c.State != containment.Undecided && (servers > 0 || tried >= triedFor)
		if isDecided || tried > decidedWithin {
			return Trial{Containment: c, MainPID: s.Process.PID, Servers: servers}, nil
		}
		time.Sleep(lookEvery)
	}
}

// RollBack makes a service that ran before the installation, and does not run now, run as before. It returns
// what has become of the drop-in: "" for a service that did not run before, or that ran with the same one.
func (d DropIn) RollBack(installed Result) (Result, error) {
	g := d.Gateway
	ranBefore := g.service.ActiveState == "active" || g.service.ActiveState == "reloading"
	isSame := g.isInForce && installed == Unchanged
	if !ranBefore || isSame {
		return "", nil
	}
	c, err := systemd.Connect(systemd.Own())
	if err != nil {
		return "", err
	}
	defer c.Close()
	result, err := d.restore(c, g.isInForce)
	// The service may have been restarted too often in between. Later versions of systemd than 252 count that
	// across a reload.
	if err := errors.Join(err, c.ResetFailed(g.Name.Full), c.Restart(g.Name.Full)); err != nil {
		return result, err
	}
	none := func(int) int { return 0 }
	_, err = g.trying(c, none, findRunning).await()
	return result, remedy.With(err, systemctl()+" status "+cli.Word(g.Name.Entered))
}

// WithUndo adds to the error of a service that does not run how it runs without mcpscope.
func (g Gateway) WithUndo(err error) error {
	unit := cli.Word(g.Name.Entered)
	undo := "mcpscope units --unit " + unit + " --remove --now && " + systemctl() + " start " + unit
	return remedy.With(err, systemctl()+" status "+unit+"; to undo: "+undo)
}
