//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/mcpscope/mcpscope/scope"
)

const doctorUsage = `Usage: mcpscope doctor [--selftest] [--json]

Says what this host offers: which backend run takes, why each better one is not
available, and the command or drop-in that would make it so. It runs a short server in
each to find out, and leaves nothing behind. Run it as the user, and in the unit or
container, of the client.

  --selftest   also try to escape: processes that leave their session, ignore
               SIGTERM, fork all the time … are started under run, ended in three
               ways, and must all be gone, within some 15 seconds
  --json       one object, as in docs/doctor.md

The exit status is 0 if a server gets a control group of its own, 1 if it does not
or if a process escaped, and 125 for a mistake or if doctor itself failed.
`

// diagnosis is all that doctor finds. Its JSON has a version, and fields are only
// ever added.
type diagnosis struct {
	Version  int           `json:"version"`
	Mcpscope string        `json:"mcpscope"`
	UID      int           `json:"uid"`
	Backend  scope.Backend `json:"backend"` // that run takes, "" if there is none
	Group    bool          `json:"group"`   // it is a control group of the server's own
	// Backends are what auto tries, in that order.
	Backends []trial     `json:"backends"`
	Host     scope.Host  `json:"host"`
	Advice   []advice    `json:"advice,omitempty"`
	Gateways []string    `json:"gateways,omitempty"` // that run, and what is wrong with them
	Selftest *testResult `json:"selftest,omitempty"`
}

type doctorFlags struct{ json, selftest bool }

func (f *doctorFlags) set() *flag.FlagSet {
	fs := flag.NewFlagSet("doctor", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.BoolVar(&f.json, "json", false, "")
	fs.BoolVar(&f.selftest, "selftest", false, "")
	return fs
}

func doctorCommand(args []string, io stdio) int {
	var f doctorFlags
	fs := f.set()
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(io.out, doctorUsage)
		return exitOK
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(io.err, "mcpscope: doctor: %v\nmcpscope: hint: mcpscope help doctor\n", clearer(err))
		return exitOwnFailure
	}
	status, err := f.examine(io.out)
	if err != nil {
		fmt.Fprintf(io.err, "mcpscope: cannot examine this host: %s\n", oneLine(err.Error()))
		return exitOwnFailure
	}
	return status
}

// examine prints in the order in which things are found out: the selftest takes
// seconds.
func (f *doctorFlags) examine(to io.Writer) (status int, err error) {
	exe, err := ownExecutable()
	if err != nil {
		return 0, err
	}
	d := diagnose(exe)
	p := newPaper(to)
	if !f.json {
		d.print(p)
	}
	if f.selftest && d.Backend != "" {
		if !f.json {
			p.printf("\nselftest on %s\n", d.Backend)
		}
		d.Selftest = selftest(exe, d.Backend, func(c testCase) {
			if !f.json {
				c.print(p)
			}
		})
	}
	switch {
	case f.json:
		p.json(d)
	case d.Selftest != nil:
		d.Selftest.print(p)
	}
	return d.status(), p.err
}

// diagnose tries the backends while managers that may not answer are being asked.
func diagnose(exe string) *diagnosis {
	d := &diagnosis{Version: 1, Mcpscope: versionString(), UID: os.Getuid()}
	surveyed := make(chan scope.Host, 1)
	go func() { surveyed <- scope.Survey() }()
	for _, b := range scope.Candidates() {
		t := tryBackend(exe, b)
		if t.Works && d.Backend == "" {
			d.Backend, d.Group = b, t.Group
		}
		d.Backends = append(d.Backends, t)
	}
	d.Host = <-surveyed
	d.Advice = d.advise()
	d.Gateways = quietGateways()
	return d
}

func (d *diagnosis) status() int {
	if d.Group && (d.Selftest == nil || d.Selftest.Passed) {
		return exitOK
	}
	return exitFailure
}

// ownExecutable is how we start ourselves: by the file that we run from even if it has
// been replaced, or, without /proc, as we were called.
func ownExecutable() (string, error) {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link, nil
	}
	return scope.Lookup(os.Args[0], searchPath())
}

// paper is where doctor writes, and remembers the first error.
type paper struct {
	to       io.Writer
	coloured bool
	err      error
}

func (p *paper) printf(format string, args ...any) {
	_, err := fmt.Fprintf(p.to, format, args...)
	if p.err == nil {
		p.err = err
	}
}

func (p *paper) json(v any) {
	e := json.NewEncoder(p.to)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	p.err = e.Encode(v)
}
