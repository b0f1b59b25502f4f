import{At as e,Dt as t,It as n,Jt as r,Kt as i,Mt as a,Ot as o,Pt as s,Qt as c,Rt as l,Ut as u,Vt as d,Wt as f,Yt as p,_ as m,an as h,cn as g,en as _,gt as v,ht as y,in as b,jt as x,ln as S,nn as C,nt as w,ot as T,pt as E,rt as D,w as O,zt as k}from"./index-BACMGhBd.js";var A=`urn:ietf:params:oauth:grant-type:device_code`,j=`urn:ietf:params:oauth:grant-type:token-exchange`,M=[{name:`web`,label:`Web application`,text:`Runs on a server, which can keep a secret`,type:`confidential`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`spa`,label:`Single-page, mobile or desktop app`,text:`Runs on devices of its users: no secret, PKCE instead`,type:`public`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`service`,label:`Service`,text:`Calls the API as itself, without a user`,type:`confidential`,grants:[`client_credentials`],redirects:!1},{name:`device`,label:`Command line or device`,text:`Shows a code, which the user enters in a browser elsewhere`,type:`public`,grants:[A,`refresh_token`],redirects:!1}],N={authorization_code:`Sign-in by redirect`,refresh_token:`Refresh tokens`,client_credentials:`As itself`,[A]:`Device code`,[j]:`Token exchange`},P=e=>N[e]??e,F=e=>[...new Set(e.map(e=>e.trim()).filter(Boolean))];function I(e,t,n){let r=e.checked?.[t]?.indexOf(n.trim())??-1;return r<0?void 0:e.field(`${t}[${r}]`)}var L=e=>e.token_endpoint_auth_method===`private_key_jwt`,R=e=>e.link.replace(/\/console\/oauth\/.*$/,``);function z(e){let t=e.redirect_uris[0];if(!t||!e.grant_types.includes(`authorization_code`))return;let n=[...crypto.getRandomValues(new Uint8Array(43))].map(e=>`ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_`[e%64]).join(``),r={response_type:`code`,client_id:e.id,redirect_uri:t,scope:e.scopes.join(` `),state:`console`,code_challenge:n,code_challenge_method:`S256`};return`/authorize?`+new URLSearchParams(r)}function B(e){let t=JSON.stringify,n=R(e),r=e.client_type===`confidential`,i=e.redirect_uris[0]??`https://app.example.com/callback`,a=e.scopes.join(` `),o=L(e),s=n.startsWith(`http:`)?`${o?``:`
  undefined,`}\n  { execute: [oidc.allowInsecureRequests] }, // the issuer is plain http`:``,c=o?`undefined,
  oidc.PrivateKeyJwt(privateKey), // a CryptoKey`:`process.env.STEWARD_CLIENT_SECRET,`,l=[],u=(e,t,n)=>l.push({name:e,label:t,text:n.trim()});e.grant_types.includes(`authorization_code`)&&r&&(u(`node`,`Node.js`,`
// npm install openid-client
import * as oidc from "openid-client";

const config = await oidc.discovery(
  new URL(${t(n)}),
  ${t(e.id)},
  ${c}${s}
);

// Send the user to this address. Keep verifier and state in the session.
const verifier = oidc.randomPKCECodeVerifier();
const state = oidc.randomState();
const address = oidc.buildAuthorizationUrl(config, {
  redirect_uri: ${t(i)},
  scope: ${t(a)},
  state,
  code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
});

// When the user comes back:
const tokens = await oidc.authorizationCodeGrant(config, new URL(request.url), {
  pkceCodeVerifier: verifier,
  expectedState: state,
});
console.log(tokens.claims());`),u(`nextjs`,`Next.js`,`
// npm install next-auth@beta
// Its redirect URI is https://<your host>/api/auth/callback/steward
import NextAuth from "next-auth";

export const { handlers, auth, signIn, signOut } = NextAuth({
  providers: [
    {
      id: "steward",
      name: "Steward",
      type: "oidc",
      issuer: ${t(n)},
      clientId: ${t(e.id)},
      clientSecret: process.env.STEWARD_CLIENT_SECRET,
      authorization: { params: { scope: ${t(a)} } },
    },
  ],
});`),u(`python`,`Python`,`
# pip install authlib flask requests
import os
from authlib.integrations.flask_client import OAuth
from flask import Flask, session

app = Flask(__name__)
app.secret_key = os.environ["FLASK_SECRET_KEY"]
steward = OAuth(app).register(
    "steward",
    client_id=${t(e.id)},
    client_secret=os.environ["STEWARD_CLIENT_SECRET"],
    server_metadata_url=${t(n+`/.well-known/openid-configuration`)},
    client_kwargs={"scope": ${t(a)}, "code_challenge_method": "S256"},
)

@app.get("/login")
def login():
    return steward.authorize_redirect(${t(i)})

@app.get("/callback")
def callback():
    session["user"] = steward.authorize_access_token()["userinfo"]
    return session["user"]`),u(`go`,`Go`,`
// go get github.com/coreos/go-oidc/v3/oidc golang.org/x/oauth2
provider, err := oidc.NewProvider(ctx, ${t(n)})
if err != nil {
	return err
}
config := oauth2.Config{
	ClientID:     ${t(e.id)},
	ClientSecret: os.Getenv("STEWARD_CLIENT_SECRET"),
	Endpoint:     provider.Endpoint(),
	RedirectURL:  ${t(i)},
	Scopes:       []string{${e.scopes.map(e=>t(e)).join(`, `)}},
}

// Send the user to this address. Keep verifier and state in the session.
verifier := oauth2.GenerateVerifier()
address := config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))

// When the user comes back:
token, err := config.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(verifier))`)),e.grant_types.includes(`authorization_code`)&&!r&&(u(`browser`,`Browser`,`
// npm install oidc-client-ts
import { UserManager } from "oidc-client-ts";

const users = new UserManager({
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
});

// The button "Sign in":
await users.signinRedirect();

// On the page of the redirect URI:
const user = await users.signinCallback();
console.log(user.profile);`),u(`react`,`React`,`
// npm install react-oidc-context oidc-client-ts
import { AuthProvider, useAuth } from "react-oidc-context";

const settings = {
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
};

export const App = () => <AuthProvider {...settings}><SignIn /></AuthProvider>;

function SignIn() {
  const auth = useAuth();
  if (auth.isAuthenticated) return <p>Hello {auth.user?.profile.name}</p>;
  return <button onClick={() => auth.signinRedirect()}>Sign in</button>;
}`)),e.grant_types.includes(`client_credentials`)&&u(`service`,`As itself (curl)`,`
curl ${m(n+`/oauth/token`)} \\
  -u ${m(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=client_credentials \\
  --data-urlencode ${m(`scope=`+e.scopes.filter(e=>e.includes(`:`)).join(` `))}`),e.grant_types.includes(A)&&u(`device`,`Device code (curl)`,`
# Show user_code and verification_uri of the answer to the user.
curl ${m(n+`/device_authorization`)} \\
  -d client_id=${m(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  --data-urlencode ${m(`scope=`+a)}

# Then ask for the tokens every few seconds, as "interval" says.
curl ${m(n+`/oauth/token`)} \\
  -d client_id=${m(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  -d grant_type=${A} \\
  -d device_code="$DEVICE_CODE"`),e.grant_types.includes(`urn:ietf:params:oauth:grant-type:token-exchange`)&&u(`exchange`,`Token exchange (curl)`,`
# ACCESS_TOKEN was issued to this app or for its audience.
curl ${m(n+`/oauth/token`)} \\
  -u ${m(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=${j} \\
  -d subject_token="$ACCESS_TOKEN" \\
  -d subject_token_type=urn:ietf:params:oauth:token-type:access_token`);let d={OIDC_ISSUER:n,OIDC_CLIENT_ID:e.id,...r&&!o?{OIDC_CLIENT_SECRET:`<the secret>`}:{},OIDC_REDIRECT_URI:i,OIDC_SCOPES:a};return u(`env`,`Environment`,Object.entries(d).map(([e,n])=>`${e}=${t(n)}`).join(`
`)),o?l.filter(e=>!e.text.includes(`STEWARD_CLIENT_SECRET`)):l}var V=class{#e=_();get problem(){return d(this.#e)}set problem(e){c(this.#e,e)}#t=_();get checked(){return d(this.#t)}set checked(e){c(this.#t,e)}field(e){return this.problem?.field(e)??``}};function H(e,t){let n=new V;return f(()=>{let r=e(),i=new AbortController,a=setTimeout(async()=>{let e=await U(t(r,i.signal));i.signal.aborted||e&&(D(e)||e.status===401)||(n.problem=e,n.checked=r)},250);return()=>{clearTimeout(a),i.abort()}}),n}async function U(e){try{await e}catch(e){return w(e)}}var W=s(`<span class="fault"> </span>`),G=s(`<span class="hint good">This address can be used.</span>`),K=s(`<div class="field"><div class="row uri"><input class="input grow mono" placeholder="https://app.example.com/callback" autocomplete="off" spellcheck="false" inputmode="url"/> <button type="button" class="btn plain square"><!></button></div> <span role="status"><!></span></div>`),q=s(`<div><button type="button" class="btn tiny"><!>Add address</button></div>`),J=s(`<fieldset><legend> </legend> <p class="small soft"> </p> <!> <!></fieldset>`);function Y(s,c){let l=n();h(c,!0);let f=T(c,`uris`,15);var m=J(),_=i(m),w=r(_,!0),D=p(_,2),A=r(D,!0),j=p(D,2);t(j,17,f,o,(t,n,o)=>{let s=C(()=>c.verdict(d(n)));var m=K(),h=i(m),g=i(h);y(g);var _=p(g,2),b=i(_);O(b,{name:`close`}),S(_),S(h);var w=p(h,2),T=i(w),D=e=>{var t=W(),n=r(t,!0);u(()=>x(n,d(s))),a(e,t)},A=e=>{var t=G();a(e,t)};e(T,e=>{d(s)?e(D):d(s)===``&&e(A,1)}),S(w),S(m),u(()=>{v(g,`name`,c.name),v(g,`aria-label`,`${c.label} ${o+1}`),v(g,`aria-invalid`,d(s)?`true`:void 0),v(g,`aria-describedby`,`${l}-${o}`),v(_,`aria-label`,`Remove ${c.label} ${o+1}`),v(w,`id`,`${l}-${o}`)}),E(g,()=>f()[o],e=>f(f()[o]=e,!0)),k(`click`,_,()=>f(f().filter((e,t)=>t!==o))),a(t,m)});var M=p(j,2),N=e=>{var t=q(),n=i(t),r=i(n);O(r,{name:`plus`}),g(),S(n),S(t),k(`click`,n,()=>f([...f(),``])),a(e,t)};e(M,e=>{f().length<100&&e(N)}),S(m),u(()=>{x(w,c.label),x(A,c.hint)}),a(s,m),b()}l([`click`]);export{L as a,B as c,I as d,P as i,j as l,H as n,R as o,F as r,M as s,Y as t,z as u};