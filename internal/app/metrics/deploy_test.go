package metrics_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// series are the labels of each series that a server exports, by its name. Prometheus adds job and
// instance to all, and the series up.
type series map[string][]string

// exported returns the series of a server whose metrics have all been used.
func exported(t *testing.T) series {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(everyMetric(t)))
	if err != nil {
		t.Fatal(err)
	}
	all := series{"up": {"job", "instance"}}
	for name, family := range families {
		labels := []string{"job", "instance"}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				labels = append(labels, l.GetName())
			}
		}
		all[name] = labels
		if family.Metric[0].Histogram != nil {
			delete(all, name)
			all[name+"_bucket"] = append(slices.Clone(labels), "le")
			all[name+"_sum"] = labels
			all[name+"_count"] = labels
		}
	}
	return all
}

// query is what a PromQL expression names.
type query struct {
	metrics  []string
	matched  map[string][]string // labels in braces, by metric
	grouped  []string            // labels of by (…)
	unknowns []string            // what was not understood
}

// token matches the words of PromQL: strings, names, numbers with units and variables of Grafana, and signs.
var token = regexp.MustCompile(`"[^"]*"|[a-zA-Z_:][a-zA-Z0-9_:]*|\$\w+|[0-9][0-9.a-z]*|=~|!~|!=|==|>=|<=|\S`)

var (
	functions = []string{
		"avg_over_time", "count", "deriv", "histogram_quantile", "increase", "label_values", "max", "min", "rate", "sum", "time", "topk",
	}
	operators = []string{"and", "or", "unless"}
)

// parse returns what an expression names. It knows the part of PromQL that deploy uses, and reports everything else.
func parse(expression string) query {
	q := query{matched: map[string][]string{}}
	tokens := token.FindAllString(expression, -1)
	for i := 0; i < len(tokens); i++ {
		word := tokens[i]
		next := append(tokens[i+1:], "")[0]
		switch {
		case !regexp.MustCompile(`^[a-zA-Z_:]`).MatchString(word) || slices.Contains(operators, word):
		case word == "by" && next == "(":
			for i += 2; tokens[i] != ")"; i++ {
				if tokens[i] != "," {
					q.grouped = append(q.grouped, tokens[i])
				}
			}
		case next == "(" || next == "by":
			if !slices.Contains(functions, word) {
				q.unknowns = append(q.unknowns, word)
			}
		default:
			q.metrics = append(q.metrics, word)
			if next != "{" {
				continue
			}
			for i += 2; tokens[i] != "}"; i++ {
				if strings.HasPrefix(tokens[i+1], "=") || strings.HasPrefix(tokens[i+1], "!") {
					q.matched[word] = append(q.matched[word], tokens[i])
				}
			}
		}
	}
	return q
}

// check reports names in an expression that the server does not export, and labels in its legend that its result does
// not have.
func (all series) check(t *testing.T, where, expression, legend string) {
	t.Helper()
	q := parse(expression)
	if len(q.unknowns) > 0 || len(q.metrics) == 0 {
		t.Errorf("%s: %s names no metric, or the functions %v, which this test does not know", where, expression, q.unknowns)
	}
	var labels []string
	for _, metric := range q.metrics {
		known, exists := all[metric]
		if !exists {
			t.Errorf("%s uses %s, which does not exist", where, metric)
		}
		labels = append(labels, known...)
		for _, label := range q.matched[metric] {
			if !slices.Contains(known, label) {
				t.Errorf("%s: %s has no label %s", where, metric, label)
			}
		}
	}
	for _, label := range q.grouped {
		if !slices.Contains(labels, label) {
			t.Errorf("%s: no metric has the label %s", where, label)
		}
	}
	for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(legend, -1) {
		if !slices.Contains(q.grouped, label[1]) {
			t.Errorf("%s: the legend %s has a label that the result does not have", where, legend)
		}
	}
}

func readRoot(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{"..", "..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// rule is an alert of deploy/alerts.yaml.
type rule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (rules []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(readRoot(t, "deploy", "alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) == 0 {
		t.Fatal("there are no alerts")
	}
	return rules
}

func TestAlertsUseWhatIsExported(t *testing.T) {
	all := exported(t)
	docs := string(readRoot(t, "docs", "monitoring.md"))
	for _, r := range alerts(t) {
		all.check(t, r.Alert, r.Expr, "")
		if !strings.Contains(docs, r.Alert) {
			t.Errorf("docs/monitoring.md does not mention %s", r.Alert)
		}
	}
}

// TestAlertsSayHowBadItIsAndWhatHelps checks labels and annotations, and that the section of the documents exists.
func TestAlertsSayHowBadItIsAndWhatHelps(t *testing.T) {
	for _, r := range alerts(t) {
		if severity := r.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has the severity %q", r.Alert, severity)
		}
		if r.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", r.Alert)
		}
		path, section, _ := strings.Cut(r.Annotations["docs"], "#")
		heading := regexp.MustCompile(`(?mi)^#+ ` + strings.ReplaceAll(section, "-", `[ -]`) + `$`)
		if section == "" || !heading.Match(readRoot(t, strings.Split(path, "/")...)) {
			t.Errorf("%s refers to %s#%s, which does not exist", r.Alert, path, section)
		}
	}
}

func TestDashboardUsesWhatIsExported(t *testing.T) {
	type panel struct {
		ID      int
		Type    string
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
	var dashboard struct {
		Panels     []panel
		Templating struct {
			List []struct{ Type, Definition string }
		}
	}
	if err := json.Unmarshal(readRoot(t, "deploy", "grafana", "steward.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	all := exported(t)
	for _, variable := range dashboard.Templating.List {
		if variable.Type == "query" && !strings.Contains(variable.Definition, "(steward_build_info, job)") {
			t.Errorf("the variable %s is of another metric", variable.Definition)
		}
	}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if p.Title == "" || ids[p.ID] || len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("the panel %d %q has no title, no query, or the id of another one", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			all.check(t, p.Title, target.Expr, target.LegendFormat)
		}
	}
	if len(ids) < 20 {
		t.Errorf("the dashboard has %d panels", len(ids))
	}
}

// TestCheckFindsMistakes checks the check.
func TestCheckFindsMistakes(t *testing.T) {
	q := parse(`topk(5, sum by (route, status) (rate(steward_a_total{job=~"$job", status!="5.."}[$__rate_interval]))) / max(up) > 0.01 * frob(b)`)
	for what, got := range map[string][2]string{
		"metrics":   {strings.Join(q.metrics, " "), "steward_a_total up b"},
		"labels":    {strings.Join(q.matched["steward_a_total"], " "), "job status"},
		"groups":    {strings.Join(q.grouped, " "), "route status"},
		"functions": {strings.Join(q.unknowns, " "), "frob"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %q, want %q", what, got[0], got[1])
		}
	}
}
