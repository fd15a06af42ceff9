// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A gateway that starts many programs at once does not have the board written for each of them.
func TestTheBoardIsWrittenAMomentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fd, err := newBoard()
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		b, err := openBoard(fd, Status{Name: "g"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(b.mem) }()
		want := func(servers int, turns uint64) {
			t.Helper()
			synctest.Wait()
			if s, err := parseStatus(b.mem[:entriesAt]); err != nil || s.Servers != servers || b.turn().Load() != turns {
				t.Errorf("%d servers were written, in turn %d (%v), want %d in turn %d", s.Servers, b.turn().Load(), err, servers, turns)
			}
		}
		for range 50 { // one each millisecond
			b.taken("id", "name", "why")
			time.Sleep(time.Millisecond)
		}
		want(0, 1)
		time.Sleep(publishEach - 50*time.Millisecond)
		want(50, 2)
		time.Sleep(time.Hour)
		want(50, 2)
		b.taken("id", "name", "why")
		time.Sleep(publishEach)
		want(51, 3)
	})
}

// A watcher waits for the ends of its servers, but not for ever.
func TestFollowersAreWaitedFor(t *testing.T) {
	for _, ends := range []time.Duration{endSlack, 3 * endSlack} {
		synctest.Test(t, func(t *testing.T) {
			w := &watcher{}
			w.followed.Go(func() { time.Sleep(ends) })
			began := time.Now()
			w.awaitFollowers()
			if took, want := time.Since(began), min(ends, 2*endSlack); took != want {
				t.Errorf("one that ends after %v was waited for for %v, want %v", ends, took, want)
			}
			time.Sleep(ends) // a bubble has no time when its test has returned
		})
	}
}
