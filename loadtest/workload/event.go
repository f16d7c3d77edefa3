package workload

import (
	"fmt"
	"strings"
	"time"
)

// Source is the CloudEvents source of every event made here.
const Source = "loadtest/workload"

// Value is the event as a CloudEvent in JSON, told at now. The same event and now give the same bytes.
func (e Event) Value(now time.Time) string {
	at := now.UTC().AddDate(0, 0, -e.DaysLate).Format(time.RFC3339)
	var center string
	if e.CostCenter != "" {
		center = fmt.Sprintf(`"cost_center":%q,`, e.CostCenter)
	}
	data := fmt.Sprintf(`{"provider":"openai","api":"chat.completions","model":%q,"agent_id":%q,%s"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		e.Model, e.Agent, center, e.Input, e.Output, e.Input+e.Output)
	return strings.Replace(envelope(e.ID, e.Tenant, data), `"data"`, `"time":"`+at+`","data"`, 1)
}

// envelope is a CloudEvent around data. Ids made here need no JSON escape.
func envelope(id, tenant, data string) string {
	return fmt.Sprintf(`{"specversion":"1.0","type":"weir.usage.v1","source":%q,"id":%q,"subject":%q,"data":%s}`, Source, id, tenant, data)
}
