package main

import (
	"fmt"
	"slices"
	"strings"
)

const schemaPrefix = "#/components/schemas/"

// goNames returns the Go names of schemas whose own names, which begin with the package that
// implements them, would not read well. A name is part of the API of package client.
func goNames() map[string]string {
	return map[string]string{
		"AccountInvited":          "InvitedMember",
		"AccountMember":           "Member",
		"AccountMemberPatch":      "MemberPatch",
		"AccountNewMember":        "NewMember",
		"AccountNewProject":       "NewProject",
		"AccountOrg":              "Organization",
		"AccountProfile":          "Profile",
		"AccountProject":          "Project",
		"AccountReset":            "PasswordReset",
		"ApikeyCreated":           "CreatedAPIKey",
		"ApikeyKey":               "APIKey",
		"ApikeyNewKey":            "NewAPIKey",
		"ApikeyProject":           "APIKeyProject",
		"EvalCompletion":          "EvalRunCompletion",
		"EvalNewEval":             "NewEval",
		"EvalStats":               "EvalRunStats",
		"EvalStatsBucket":         "EvalRunCounts",
		"EvalStart":               "NewEvalRun",
		"EvalSyncNew":             "EvalSyncEntry",
		"KeysInfo":                "SigningKey",
		"ObjectAnalytics":         "StorageAnalytics",
		"ObjectBucketAnalytics":   "BucketAnalytics",
		"ObjectBucketConfig":      "BucketConfig",
		"ObjectCORS":              "CORS",
		"ObjectDayAnalytics":      "StorageDay",
		"ObjectDeleted":           "DeletedObjects",
		"ObjectEntry":             "Object",
		"ObjectFolder":            "Folder",
		"ObjectFolderEntry":       "FolderObject",
		"ObjectFolderView":        "FolderListing",
		"ObjectPatch":             "BucketConfigPatch",
		"ObjectPresigned":         "PresignedURL",
		"ObjectStats":             "BucketStats",
		"ObjectSummary":           "StorageSummary",
		"OidcAccessLevel":         "AccessLevel",
		"OidcActivityDay":         "OAuthActivityDay",
		"OidcCatalogue":           "ScopeCatalogue",
		"OidcClient":              "OAuthClient",
		"OidcClientActivityDay":   "OAuthClientActivityDay",
		"OidcClientDetails":       "OAuthClientDetails",
		"OidcClientPatch":         "OAuthClientPatch",
		"OidcCreated":             "CreatedOAuthClient",
		"OidcDeleted":             "Deleted",
		"OidcKeysRotated":         "SigningKeysRotated",
		"OidcNewClient":           "NewOAuthClient",
		"OidcOwnConsent":          "Consent",
		"OidcPermissionGroup":     "PermissionGroup",
		"OidcPermissionSection":   "PermissionSection",
		"OidcRotated":             "RotatedSecret",
		"OidcScope":               "Scope",
		"OidcUpdated":             "UpdatedOAuthClient",
		"OidcUserConsent":         "OAuthClientUser",
		"ResourceCreated":         "CreatedResources",
		"ResourceCreatedResource": "CreatedResource",
		"ResourceColumn":          "Column",
		"ResourceDBEntry":         "Database",
		"ResourceKey":             "StoreKey",
		"ResourceKeys":            "StoreKeys",
		"ResourceKVEntry":         "KeyValueStore",
		"ResourceList":            "RegionResources",
		"ResourceNamed":           "NamedResource",
		"ResourceNewQuery":        "NewQuery",
		"ResourceNewResource":     "NewResource",
		"ResourceNewResources":    "NewResources",
		"ResourcePlaced":          "Resources",
		"ResourcePlacedDB":        "PlacedDatabase",
		"ResourcePlacedKV":        "PlacedKeyValueStore",
		"ResourcePlacedS3":        "PlacedBucket",
		"ResourceRegion":          "Region",
		"ResourceRows":            "QueryResult",
		"ResourceS3Entry":         "Bucket",
		"ResourceTable":           "Table",
		"StatusEngineState":       "EngineState",
		"StatusFailing":           "FailingDestination",
		"StatsAnalytics":          "WebhookAnalytics",
		"StatsBucket":             "WebhookCounts",
		"StatsSummary":            "WebhookSummary",
		"StatsTimeseries":         "WebhookTimeseries",
		"ThreadCompletion":        "SessionCompletion",
		"ThreadPut":               "NewThread",
		"ThreadSession":           "Session",
		"ThreadStart":             "NewSession",
		"WebhookDelivery":         "Delivery",
		"WebhookDestination":      "Destination",
		"WebhookDestinationPatch": "DestinationPatch",
		"WebhookNewDestination":   "NewDestination",
		"WebhookNewWebhook":       "NewWebhook",
		"WebhookReceipt":          "Receipt",
		"WebhookResponse":         "DeliveryResponse",
		"WebhookTestResponse":     "DestinationTest",
	}
}

// hoistedNames returns the names of objects that schemas have as properties, by schema and
// property. Others are named after both.
func hoistedNames() map[string]string {
	return map[string]string{
		"BucketConfigPatch.cors":  "CORS",
		"Destination.config":      "DestinationConfig",
		"DestinationPatch.config": "DestinationConfig",
		"NewDestination.config":   "DestinationConfig",
	}
}

// enumNames returns the Go names of the types of values that several fields have, by their values.
func enumNames() map[string]string {
	return map[string]string{
		"admin member owner viewer": "Role",
		"asc desc":                  "Direction",
		"confidential public":       "ClientType",
		"day hour minute":           "Granularity",
		"db kv s3":                  "ResourceType",
		"failed pending success":    "DeliveryStatus",
		"project root user":         "APIKeyType",
	}
}

// nameEnums makes schemas of the types of values that several fields have. A field that has a single
// value is an ordinary string.
func nameEnums(tree node) {
	schemas := object(tree, "components", "schemas")
	walk(tree, func(n node) {
		enum, _ := n["enum"].([]any)
		if len(enum) == 1 {
			delete(n, "enum")
		}
		name, ok := enumNames()[values(enum)]
		if !ok {
			return
		}
		// In one order: fields may have the same values in different ones.
		schemas[name] = node{"type": "string", "enum": strings.Fields(values(enum))}
		delete(n, "enum")
		delete(n, "type")
		n["allOf"] = []any{node{"$ref": schemaPrefix + name}}
	})
}

func values(enum []any) string {
	var all []string
	for _, value := range enum {
		all = append(all, fmt.Sprint(value))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// rename gives schemas their Go names. It returns an error if two get the same.
func rename(tree node) error {
	names := goNames()
	schemas := object(tree, "components", "schemas")
	renamed := node{}
	for old, schema := range schemas {
		name, ok := names[old]
		if !ok {
			name = old
		}
		if renamed[name] != nil {
			return fmt.Errorf("two schemas have the Go name %s; one of them is %s", name, old)
		}
		renamed[name] = schema
	}
	object(tree, "components")["schemas"] = renamed
	walk(tree, func(n node) {
		ref, _ := n["$ref"].(string)
		if name, ok := names[strings.TrimPrefix(ref, schemaPrefix)]; ok {
			n["$ref"] = schemaPrefix + name
		}
	})
	return nil
}

// hoist turns the objects that are properties of schemas into schemas, since the generator would
// make anonymous structs of them.
func hoist(tree node) {
	schemas := object(tree, "components", "schemas")
	hoisted := node{}
	for parent := range schemas {
		properties := object(schemas, parent, "properties")
		for name, value := range properties {
			property, _ := value.(node)
			if property["properties"] == nil {
				continue
			}
			target, ok := hoistedNames()[parent+"."+name]
			if !ok {
				target = parent + strings.ToUpper(name[:1]) + name[1:]
			}
			properties[name] = reference(target, property)
			hoisted[target] = property
		}
	}
	for name, schema := range hoisted {
		if schemas[name] == nil {
			schemas[name] = schema
		}
	}
}

// reference returns a property that refers to a schema instead of having it inside. What is said
// about the property stays there.
func reference(target string, property node) node {
	out := node{"allOf": []any{node{"$ref": schemaPrefix + target}}}
	for _, key := range []string{"nullable", "description"} {
		if value, ok := property[key]; ok {
			out[key] = value
			delete(property, key)
		}
	}
	return out
}
