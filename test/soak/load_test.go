// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// load is a tenth of the number, unless all is asked for.
func load(n int) int {
	if escape.Full() {
		return n
	}
	return n / 10
}

func contained(flags ...string) []string {
	return append([]string{programs.mcpscope, "run", "--backend", "cgroup"}, flags...)
}

// crowdOf starts n servers in waves: the next begins when all of one have answered.
func crowdOf(t *testing.T, s *escape.Site, n int) (all []*escape.Bystander) {
	t.Helper()
	const wave = 50
	begin := time.Now()
	for len(all) < n {
		first := len(all)
		for range min(wave, n-first) {
			line := contained("--name", "load", "--", programs.Zoo, "plain")
			all = append(all, s.Bystander("server", s.Dir, s.Command(line...)))
		}
		wantAnswers(t, all[first:])
	}
	tell(t, "%d servers started in %.2f s", n, time.Since(begin).Seconds())
	return all
}

func wantAnswers(t *testing.T, all []*escape.Bystander) {
	t.Helper()
	for _, b := range all {
		if !b.Lives() {
			t.Fatalf("a server does not answer: %s", escape.Describe(b.Cmd.Process.Pid))
		}
	}
}

func TestManyServersAtOnce(t *testing.T) {
	s := newSite(t)
	all := crowdOf(t, s, load(1000))
	wantAnswers(t, all)
	begin := time.Now()
	for _, b := range all {
		b.In.Close()
	}
	for _, b := range all {
		if err := b.Cmd.Wait(); err != nil {
			t.Errorf("a server ended with %v", err)
		}
	}
	tell(t, "%d servers ended by closing stdin, all in %.2f s", len(all), time.Since(begin).Seconds())
	wantNothing(t, s, 0)
}

func TestManyLaunchersKilledAtOnce(t *testing.T) {
	s := newSite(t)
	all := crowdOf(t, s, load(500))
	var launchers []*escape.Process
	for _, b := range all {
		p, err := escape.OpenProcess(b.Cmd.Process.Pid) // ours, and not waited for
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		launchers = append(launchers, p)
	}
	begin := time.Now()
	for _, p := range launchers {
		p.Signal(unix.SIGKILL)
	}
	if err := bed.WaitEmpty(rootsSlice(s), patience); err != nil {
		t.Errorf("%v: %s", err, escape.Tree(rootsSlice(s)))
	}
	tell(t, "%d launchers killed at once, empty after %.2f s", len(all), time.Since(begin).Seconds())
	for _, b := range all {
		b.End()
	}
	wantNothing(t, s, patience)
}

func TestStopOfAHugeGroup(t *testing.T) {
	s := newSite(t)
	theirIn, in := bed.Pipe(t)
	out, theirOut := bed.Pipe(t)
	cmd := s.Command(contained("--name", "huge", "--eof-grace", "100ms", "--term-grace", "100ms", "--", programs.crowd, fmt.Sprint(load(10000)))...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, os.Stderr
	s.Start(s.Dir, cmd)
	theirIn.Close()
	theirOut.Close()
	launcher, err := escape.OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer launcher.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	members, bad := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || bad != nil {
		t.Fatalf("the server said %q, %v", line, err)
	}
	begin := time.Now()
	in.Close()
	if !launcher.Ended(patience) {
		t.Fatalf("the launcher lives: %s", escape.Tree(s.Dir))
	}
	tell(t, "a group of %d processes gone %.2f s after the graces", members, (time.Since(begin) - 200*time.Millisecond).Seconds())
	if groups := escape.Servers(rootsSlice(s), "*", "*"); len(groups) > 0 {
		t.Errorf("the launcher returned before the group was gone: %s", escape.Tree(groups[0]))
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.String(); got != "signal: killed" {
		t.Errorf("ended with %q", got)
	}
	wantNothing(t, s, 0)
}

// wantNothing: no group of a server, and in the site nobody but its own root.
func wantNothing(t *testing.T, s *escape.Site, limit time.Duration) {
	t.Helper()
	escape.AwaitRemovers(t, rootsSlice(s))
	escape.WantNoServers(t, rootsSlice(s), "*", limit)
	p := Plan{site: s, groups: []string{s.Dir}}
	only := footprint{processes: 1}
	for pause := time.Millisecond; p.processes(bed.Root(t)) > only.processes; pause *= 2 { // no event tells of a reaped stranger
		if pause > patience {
			t.Fatalf("processes are left: %s", escape.Tree(s.Dir))
		}
		escape.PollFor(pause)
	}
}

func tell(t *testing.T, format string, args ...any) {
	t.Helper()
	text := "load, backend cgroup: " + fmt.Sprintf(format, args...) + "\n"
	fmt.Print(text)
	if err := escape.AppendTable(text); err != nil {
		t.Error(err)
	}
}
