// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
)

// BenchmarkManyHosts has one Prometheus scrape simulated hosts, with the series of each server and without.
// Between two scrapes each host replaces a tenth of its servers. TESTS_HOSTS, TESTS_SERVERS and TESTS_SCRAPES
// are other sizes.
func BenchmarkManyHosts(b *testing.B) {
	hosts := escape.Number("TESTS_HOSTS", 200)
	servers := escape.Number("TESTS_SERVERS", 300)
	scrapes := escape.Number("TESTS_SCRAPES", 5)
	fmt.Printf("\n### %d hosts of %d servers, scraped every %v\n\n", hosts, servers, scrapeEvery)
	var made []*simulatedHost
	var targets []string
	for i := range hosts {
		h := startHost(b, i, servers)
		made = append(made, h)
		targets = append(targets, h.address)
	}
	plain, compressed, took := scrapeSize(b, made[0].address)
	fmt.Printf("a scrape: %d kB, %d kB compressed, answered in %v\n\n",
		plain>>10, compressed>>10, took.Round(time.Millisecond))
	fmt.Println("| | scrapes | starts of servers | series in memory | active, of a host | " +
		"scrape: mean, longest | memory |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, kind := range []struct{ name, more string }{{"each server", ""}, {"dropped", withoutServers}} {
		b.Run(kind.name, func(b *testing.B) {
			configuration := configure(b, scrapeEvery.String(), kind.more, targets)
			p := startPrometheus(b, configuration, func(rules string) string { return rules })
			starts := 0
			for done := 1; done <= scrapes; done++ {
				enough := fmt.Sprintf("count(count_over_time(up[1h]) >= %d)", done)
				p.await(enough, func() bool { return p.number(enough) == float64(hosts) })
				if done == 1 || done == scrapes {
					p.printRow(kind.name, done, hosts, starts)
				}
				for _, h := range made {
					h.replaceServers(servers / 10)
					starts += servers / 10
				}
			}
			b.ReportMetric(0, "ns/op") // the duration says nothing
		})
	}
}

const scrapeEvery = time.Minute

func (p *prometheus) printRow(name string, scrapes, hosts, starts int) {
	var head struct {
		HeadStats struct{ NumSeries int }
	}
	p.ask("status/tsdb", &head)
	active := p.number("sum(scrape_samples_post_metric_relabeling)") / float64(hosts)
	mean, longest := p.number("avg(scrape_duration_seconds)"), p.number("max(scrape_duration_seconds)")
	if failed := p.number("sum(count_over_time(up[1h])) - sum(sum_over_time(up[1h]))"); failed > 0 {
		name += fmt.Sprintf(" (%.0f scrapes failed)", failed)
	}
	fmt.Printf("| %s | %d | %d | %d | %.0f | %.0f ms, %.0f ms | %.0f MB |\n", name, scrapes, starts,
		head.HeadStats.NumSeries, active, mean*1000, longest*1000, p.residentMemory()/(1<<20))
}

// scrapeSize asks as Prometheus does.
func scrapeSize(b *testing.B, address string) (plain, compressed int64, took time.Duration) {
	b.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	request.Header.Set("Accept-Encoding", "gzip")
	began := time.Now()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	counted := &counter{from: answer.Body}
	text, err := gzip.NewReader(counted)
	if err != nil {
		b.Fatal(err)
	}
	plain, err = io.Copy(io.Discard, text)
	if err != nil {
		b.Fatal(err)
	}
	return plain, counted.bytes, time.Since(began)
}

// counter counts what is read.
type counter struct {
	from  io.Reader
	bytes int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.bytes += int64(n)
	return n, err
}
