// Makes, describes and deletes access rules, quotas, SCRAM users and delegation tokens, and prints what the library
// returns: rights CLIENT ADDRESS ADDRESS-OF-LOGINS PAUSE-MS. Each line begins with the number of its step.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	segmentplain "github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const patience = 100 * time.Second

var (
	step  int
	pause time.Duration
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Begins a step, after whatever the step before has changed came into force.
func next() {
	time.Sleep(pause)
	step++
}

func say(format string, values ...any) {
	fmt.Printf("%02d "+format+"\n", append([]any{step}, values...)...)
}

// ---- franz-go

func franzClient(address string, options ...kgo.Opt) *kadm.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(address))...)
	must(err)
	return kadm.NewClient(client)
}

func everyRule() *kadm.ACLBuilder {
	return kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().
		Operations().ResourcePatternType(kadm.ACLPatternAny)
}

func franzRules(ctx context.Context, admin, user *kadm.Client) {
	create := func(by *kadm.Client, rules *kadm.ACLBuilder) {
		next()
		results, err := by.CreateACLs(ctx, rules)
		say("create %v", err)
		for _, each := range results {
			say("%+v", each)
		}
	}
	describe := func(by *kadm.Client, filter *kadm.ACLBuilder) {
		next()
		results, err := by.DescribeACLs(ctx, filter)
		say("describe %v", err)
		for _, each := range results {
			say("%v %v %v %v", each.Type, each.Err, each.ErrMessage, len(each.Described))
			for _, rule := range each.Described {
				say("%+v", rule)
			}
		}
	}
	remove := func(by *kadm.Client, filter *kadm.ACLBuilder) {
		next()
		results, err := by.DeleteACLs(ctx, filter)
		say("delete %v", err)
		for _, each := range results {
			say("%v %v %v %v", each.Type, each.Err, each.ErrMessage, len(each.Deleted))
			for _, rule := range each.Deleted {
				say("%+v", rule)
			}
		}
	}
	create(admin, kadm.NewACLs().Topics("orders").Groups("billing").TransactionalIDs("x").Clusters().
		Allow("User:zoe").Deny("User:bob").DenyHosts("10.0.0.7").
		Operations(kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral))
	create(admin, kadm.NewACLs().Topics("ord").Allow("User:ann", "User:*").AllowHosts("*", "10.0.0.8").
		Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternPrefixed))
	create(admin, kadm.NewACLs().Topics("").DelegationTokens("abc").Allow("User:ann").
		Operations(kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral))
	create(user, kadm.NewACLs().Topics("t").Allow("User:bob").
		Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral))
	describe(admin, everyRule())
	describe(user, everyRule())
	describe(admin, kadm.NewACLs().Topics("orders", "none").Allow().AllowHosts().
		Operations().ResourcePatternType(kadm.ACLPatternMatch))
	remove(user, everyRule())
	remove(admin, kadm.NewACLs().Topics("orders", "none").Allow("User:ann", "User:zoe").AllowHosts().
		Operations(kadm.OpDescribe, kadm.OpAll).ResourcePatternType(kadm.ACLPatternMatch))
	describe(admin, everyRule())
	remove(admin, everyRule())
	remove(admin, everyRule())
}

func franzQuotas(ctx context.Context, admin, user *kadm.Client) {
	entity := func(parts ...string) (found kadm.ClientQuotaEntity) {
		for i := 0; i < len(parts); i += 2 {
			component := kadm.ClientQuotaEntityComponent{Type: parts[i]}
			if parts[i+1] != "" {
				component.Name = &parts[i+1]
			}
			found = append(found, component)
		}
		return found
	}
	set := func(key string, value float64) []kadm.AlterClientQuotaOp {
		return []kadm.AlterClientQuotaOp{{Key: key, Value: value}}
	}
	without := func(key string, parts ...string) kadm.AlterClientQuotaEntry {
		return kadm.AlterClientQuotaEntry{
			Entity: entity(parts...), Ops: []kadm.AlterClientQuotaOp{{Key: key, Remove: true}},
		}
	}
	alter := func(by func(context.Context, []kadm.AlterClientQuotaEntry) (kadm.AlteredClientQuotas, error),
		entries ...kadm.AlterClientQuotaEntry) {
		next()
		results, err := by(ctx, entries)
		say("alter %v", err)
		for _, each := range results {
			say("%v %v %v", each.Entity, each.Err, each.ErrMessage)
		}
	}
	describe := func(by *kadm.Client, strict bool, parts ...kadm.DescribeClientQuotaComponent) {
		next()
		results, err := by.DescribeClientQuotas(ctx, strict, parts)
		say("describe %v", err)
		for _, each := range results {
			for _, value := range each.Values {
				say("%v %v", each.Entity, value)
			}
		}
	}
	produce := set("producer_byte_rate", 1000)
	alter(admin.AlterClientQuotas, kadm.AlterClientQuotaEntry{Entity: entity("user", "ann"), Ops: produce},
		kadm.AlterClientQuotaEntry{Entity: entity("user", ""), Ops: set("consumer_byte_rate", 2000.5)},
		kadm.AlterClientQuotaEntry{Entity: entity("user", "ann", "client-id", "c"), Ops: set("request_percentage", 12.5)},
		kadm.AlterClientQuotaEntry{Entity: entity("client-id", ""), Ops: set("controller_mutation_rate", 3)},
		kadm.AlterClientQuotaEntry{Entity: entity("ip", "10.0.0.7"), Ops: set("connection_creation_rate", 5)})
	alter(admin.ValidateAlterClientQuotas, kadm.AlterClientQuotaEntry{Entity: entity("user", "zoe"), Ops: produce})
	alter(admin.AlterClientQuotas, kadm.AlterClientQuotaEntry{Entity: entity("user", "ann"), Ops: set("bytes", 1)},
		kadm.AlterClientQuotaEntry{Entity: entity("group", "ann"), Ops: produce})
	alter(admin.AlterClientQuotas, kadm.AlterClientQuotaEntry{Entity: entity("ip", "10.0.0.7"), Ops: produce})
	alter(user.AlterClientQuotas, kadm.AlterClientQuotaEntry{Entity: entity("user", "ann"), Ops: produce})
	ann, address := "ann", "10.0.0.7"
	describe(admin, false)
	describe(admin, false, kadm.DescribeClientQuotaComponent{Type: "user", MatchType: kmsg.QuotasMatchTypeAny})
	describe(admin, true, kadm.DescribeClientQuotaComponent{Type: "user", MatchName: &ann})
	describe(admin, true, kadm.DescribeClientQuotaComponent{Type: "user", MatchType: kmsg.QuotasMatchTypeDefault})
	describe(admin, true, kadm.DescribeClientQuotaComponent{Type: "ip", MatchName: &address})
	describe(admin, true, kadm.DescribeClientQuotaComponent{Type: "group", MatchName: &ann})
	describe(user, false)
	alter(admin.AlterClientQuotas, without("producer_byte_rate", "user", "ann"),
		without("producer_byte_rate", "user", "nobody"))
	describe(admin, false)
	alter(admin.AlterClientQuotas, without("request_percentage", "user", "ann", "client-id", "c"),
		without("consumer_byte_rate", "user", ""), without("controller_mutation_rate", "client-id", ""),
		without("connection_creation_rate", "ip", "10.0.0.7"))
	describe(admin, false)
}

func franzUsers(ctx context.Context, admin, user *kadm.Client) {
	alter := func(by *kadm.Client, deleted []kadm.DeleteSCRAM, upserted ...kadm.UpsertSCRAM) {
		next()
		results, err := by.AlterUserSCRAMs(ctx, deleted, upserted)
		say("alter %v", err)
		for _, each := range results.Sorted() {
			say("%+v", each)
		}
	}
	describe := func(by *kadm.Client, users ...string) {
		next()
		results, err := by.DescribeUserSCRAMs(ctx, users...)
		say("describe %v", err)
		for _, each := range results.Sorted() {
			say("%+v", each)
		}
	}
	few := kadm.UpsertSCRAM{
		User: "few", Mechanism: kadm.ScramSha256, Iterations: 100, Salt: []byte("salt"), SaltedPassword: make([]byte, 32),
	}
	alter(admin, nil, kadm.UpsertSCRAM{User: "zoe", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "pencil"},
		kadm.UpsertSCRAM{User: "yan", Mechanism: kadm.ScramSha512, Iterations: 8192, Password: "pencil"}, few)
	alter(user, nil, kadm.UpsertSCRAM{User: "xia", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "pencil"})
	describe(admin, "zoe", "yan", "nobody")
	describe(user, "zoe") // Apache Kafka never answers if that asks for all
	alter(admin, []kadm.DeleteSCRAM{{User: "zoe", Mechanism: kadm.ScramSha256}, {User: "yan", Mechanism: kadm.ScramSha256}})
	describe(admin, "zoe", "yan")
	alter(admin, []kadm.DeleteSCRAM{{User: "yan", Mechanism: kadm.ScramSha512}})
}

func franzTokens(ctx context.Context, admin, user *kadm.Client) {
	at := func(moment time.Time) string { // in hundreds of seconds from now
		if moment.UnixMilli() <= 0 {
			return "never"
		}
		return moment.Sub(time.Now()).Round(100 * time.Second).String()
	}
	tell := func(token kadm.DelegationToken) {
		say("%+v by %+v, %d and %d bytes, renewed by %+v, from %v, to %v, at most %v", token.Owner,
			token.TokenRequesterPrincipal, len(token.TokenID), len(token.HMAC), token.Renewers,
			at(token.IssueTimestamp), at(token.ExpiryTimestamp), at(token.MaxTimestamp))
	}
	create := func(by *kadm.Client, wanted kadm.CreateDelegationToken) kadm.DelegationToken {
		next()
		token, err := by.CreateDelegationToken(ctx, wanted)
		say("create %v", err)
		if err == nil {
			tell(token)
		}
		return token
	}
	describe := func(by *kadm.Client, owners ...kadm.Principal) {
		next()
		tokens, err := by.DescribeDelegationTokens(ctx, owners...)
		say("describe %v", err)
		for _, each := range tokens {
			tell(each)
		}
	}
	change := func(by func(context.Context, []byte, time.Duration) (time.Time, error), hmac []byte, period time.Duration) {
		next()
		until, err := by(ctx, hmac, period)
		say("change %v %v", at(until), err)
	}
	bob := kadm.Principal{Name: "bob"}
	token := create(user, kadm.CreateDelegationToken{Renewers: []kadm.Principal{bob}, MaxLifetime: 3 * time.Hour})
	create(user, kadm.CreateDelegationToken{Owner: &bob, MaxLifetime: -time.Millisecond})
	create(user, kadm.CreateDelegationToken{Renewers: []kadm.Principal{{Type: "Group", Name: "x"}}})
	create(admin, kadm.CreateDelegationToken{MaxLifetime: time.Hour})
	describe(user)
	describe(user, kadm.Principal{Type: "User", Name: "bob"})
	change(user.RenewDelegationToken, token.HMAC, 2*time.Hour)
	change(user.RenewDelegationToken, []byte("unknown"), time.Hour)
	change(user.ExpireDelegationToken, token.HMAC, time.Hour)
	change(user.ExpireDelegationToken, token.HMAC, -time.Millisecond)
	change(user.ExpireDelegationToken, token.HMAC, -time.Millisecond)
	describe(user)
}

func franz(ctx context.Context, address, logins string) {
	admin := franzClient(address)
	defer admin.Close()
	user := franzClient(logins, kgo.SASL(plain.Auth{User: "ann", Pass: "ann-secret"}.AsMechanism()))
	defer user.Close()
	franzRules(ctx, admin, user)
	franzQuotas(ctx, admin, user)
	franzUsers(ctx, admin, user)
	franzTokens(ctx, admin, user)
}

// ---- kafka-go

func segmentRules(ctx context.Context, admin, user *kafka.Client) {
	create := func(by *kafka.Client, rules ...kafka.ACLEntry) {
		next()
		answer, err := by.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: rules})
		say("create %v", err)
		if err == nil {
			say("%+v", *answer)
		}
	}
	describe := func(by *kafka.Client, filter kafka.ACLFilter) {
		next()
		answer, err := by.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: filter})
		say("describe %v", err)
		if err == nil {
			say("%v", answer.Error)
			for _, resource := range answer.Resources {
				for _, rule := range resource.ACLs {
					say("%v %v %v %+v", resource.ResourceType, resource.ResourceName, resource.PatternType, rule)
				}
			}
		}
	}
	remove := func(by *kafka.Client, filter kafka.DeleteACLsFilter) {
		next()
		answer, err := by.DeleteACLs(ctx, &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{filter}})
		say("delete %v", err)
		if err == nil {
			for _, result := range answer.Results {
				say("%v", result.Error)
				for _, rule := range result.MatchingACLs {
					say("%+v", rule)
				}
			}
		}
	}
	rule := kafka.ACLEntry{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: "orders", ResourcePatternType: kafka.PatternTypeLiteral,
		Principal: "User:ann", Host: "*", Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow,
	}
	denied, nameless := rule, rule
	denied.PermissionType, denied.ResourcePatternType = kafka.ACLPermissionTypeDeny, kafka.PatternTypePrefixed
	nameless.ResourceName = ""
	create(admin, rule, denied, nameless)
	create(user, rule)
	every := kafka.ACLFilter{
		ResourceTypeFilter: kafka.ResourceTypeAny, ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
	}
	describe(admin, every)
	describe(user, every)
	named := every
	named.ResourceTypeFilter, named.ResourceNameFilter = kafka.ResourceTypeTopic, "orders-eu"
	named.ResourcePatternTypeFilter = kafka.PatternTypeMatch
	describe(admin, named)
	remove(user, kafka.DeleteACLsFilter(every))
	remove(admin, kafka.DeleteACLsFilter(named))
	remove(admin, kafka.DeleteACLsFilter(every))
	remove(admin, kafka.DeleteACLsFilter(every))
}

func segmentQuotas(ctx context.Context, admin, user *kafka.Client) {
	alter := func(by *kafka.Client, validates bool, kind, name, key string, value float64, removes bool) {
		next()
		answer, err := by.AlterClientQuotas(ctx, &kafka.AlterClientQuotasRequest{
			Entries: []kafka.AlterClientQuotaEntry{{
				Entities: []kafka.AlterClientQuotaEntity{{EntityType: kind, EntityName: name}},
				Ops:      []kafka.AlterClientQuotaOps{{Key: key, Value: value, Remove: removes}},
			}},
			ValidateOnly: validates,
		})
		say("alter %v", err)
		if err == nil {
			say("%+v", *answer)
		}
	}
	describe := func(by *kafka.Client, kind string, match int8, name string) {
		next()
		answer, err := by.DescribeClientQuotas(ctx, &kafka.DescribeClientQuotasRequest{
			Components: []kafka.DescribeClientQuotasRequestComponent{{EntityType: kind, MatchType: match, Match: name}},
		})
		say("describe %v", err)
		if err == nil {
			say("%v", answer.Error)
			for _, entry := range answer.Entries {
				say("%+v", entry)
			}
		}
	}
	alter(admin, false, "user", "ann", "producer_byte_rate", 1000, false)
	alter(admin, false, "user", "", "consumer_byte_rate", 2000, false)
	alter(admin, true, "user", "zoe", "producer_byte_rate", 1000, false)
	alter(admin, false, "user", "ann", "bytes", 1000, false)
	alter(user, false, "user", "ann", "producer_byte_rate", 1000, false)
	describe(admin, "user", 0, "ann")
	describe(admin, "user", 2, "")
	describe(admin, "group", 2, "")
	describe(user, "user", 2, "")
	alter(admin, false, "user", "ann", "producer_byte_rate", 0, true)
	describe(admin, "user", 0, "ann")
}

func segmentUsers(ctx context.Context, admin, user *kafka.Client) {
	alter := func(by *kafka.Client, request kafka.AlterUserScramCredentialsRequest) {
		next()
		answer, err := by.AlterUserScramCredentials(ctx, &request)
		say("alter %v", err)
		if err == nil {
			say("%+v", *answer)
		}
	}
	describe := func(by *kafka.Client, names ...string) {
		next()
		request := kafka.DescribeUserScramCredentialsRequest{}
		for _, name := range names {
			request.Users = append(request.Users, kafka.UserScramCredentialsUser{Name: name})
		}
		answer, err := by.DescribeUserScramCredentials(ctx, &request)
		say("describe %v", err)
		if err == nil {
			say("%+v", *answer)
		}
	}
	upserted := func(name string, iterations int) kafka.AlterUserScramCredentialsRequest {
		return kafka.AlterUserScramCredentialsRequest{Upsertions: []kafka.UserScramCredentialsUpsertion{{
			Name: name, Mechanism: kafka.ScramMechanismSha512, Iterations: iterations, Salt: []byte("salt"),
			SaltedPassword: make([]byte, 64),
		}}}
	}
	deleted := kafka.AlterUserScramCredentialsRequest{Deletions: []kafka.UserScramCredentialsDeletion{
		{Name: "zoe", Mechanism: kafka.ScramMechanismSha512},
	}}
	alter(admin, upserted("zoe", 4096))
	alter(admin, upserted("yan", 100))
	alter(user, upserted("yan", 4096))
	describe(admin, "zoe", "nobody")
	describe(user, "zoe")
	alter(admin, deleted)
	alter(admin, deleted)
	describe(admin, "zoe")
}

func segment(ctx context.Context, address, logins string) {
	admin := &kafka.Client{Addr: kafka.TCP(address)}
	user := &kafka.Client{Addr: kafka.TCP(logins), Transport: &kafka.Transport{
		SASL: segmentplain.Mechanism{Username: "ann", Password: "ann-secret"},
	}}
	segmentRules(ctx, admin, user)
	segmentQuotas(ctx, admin, user)
	segmentUsers(ctx, admin, user)
}

func main() {
	milliseconds, err := strconv.Atoi(os.Args[4])
	must(err)
	pause = time.Duration(milliseconds) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if os.Args[1] == "franz-go" {
		franz(ctx, os.Args[2], os.Args[3])
	} else {
		segment(ctx, os.Args[2], os.Args[3])
	}
}
