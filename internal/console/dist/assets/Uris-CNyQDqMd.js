import{$t as e,Bt as t,Ft as n,Gt as r,Ht as i,It as a,Jt as o,Mt as s,Pt as c,Qt as l,Rt as u,T as d,Ut as f,Xt as p,at as m,bt as h,cn as g,fn as _,gt as v,in as y,jt as b,ln as x,lt as S,nn as C,on as w,ot as T,pn as E,qt as D,v as O,yt as k}from"./index-DH6OeGTA.js";var A=`urn:ietf:params:oauth:grant-type:device_code`,j=`urn:ietf:params:oauth:grant-type:token-exchange`,M=[{name:`web`,label:`Web application`,text:`Runs on a server, which can keep a secret`,type:`confidential`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`spa`,label:`Single-page, mobile or desktop app`,text:`Runs on devices of its users: no secret, PKCE instead`,type:`public`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`service`,label:`Service`,text:`Calls the API as itself, without a user`,type:`confidential`,grants:[`client_credentials`],redirects:!1},{name:`device`,label:`Command line or device`,text:`Shows a code, which the user enters in a browser elsewhere`,type:`public`,grants:[A,`refresh_token`],redirects:!1}],N={authorization_code:`Sign-in by redirect`,refresh_token:`Refresh tokens`,client_credentials:`As itself`,[A]:`Device code`,[j]:`Token exchange`},P=e=>N[e]??e,F=e=>[...new Set(e.map(e=>e.trim()).filter(Boolean))];function I(e,t,n){let r=e.checked?.[t]?.indexOf(n.trim())??-1;return r<0?void 0:e.field(`${t}[${r}]`)}var L=e=>e.token_endpoint_auth_method===`private_key_jwt`,R=e=>e.link.replace(/\/console\/oauth\/.*$/,``);function z(e){let t=e.redirect_uris[0];if(!t||!e.grant_types.includes(`authorization_code`))return;let n=[...crypto.getRandomValues(new Uint8Array(43))].map(e=>`ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_`[e%64]).join(``),r={response_type:`code`,client_id:e.id,redirect_uri:t,scope:e.scopes.join(` `),state:`console`,code_challenge:n,code_challenge_method:`S256`};return`/authorize?`+new URLSearchParams(r)}function B(e){let t=JSON.stringify,n=R(e),r=e.client_type===`confidential`,i=e.redirect_uris[0]??`https://app.example.com/callback`,a=e.scopes.join(` `),o=L(e),s=n.startsWith(`http:`)?`${o?``:`
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
curl ${O(n+`/oauth/token`)} \\
  -u ${O(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=client_credentials \\
  --data-urlencode ${O(`scope=`+e.scopes.filter(e=>e.includes(`:`)).join(` `))}`),e.grant_types.includes(A)&&u(`device`,`Device code (curl)`,`
# Show user_code and verification_uri of the answer to the user.
curl ${O(n+`/device_authorization`)} \\
  -d client_id=${O(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  --data-urlencode ${O(`scope=`+a)}

# Then ask for the tokens every few seconds, as "interval" says.
curl ${O(n+`/oauth/token`)} \\
  -d client_id=${O(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  -d grant_type=${A} \\
  -d device_code="$DEVICE_CODE"`),e.grant_types.includes(`urn:ietf:params:oauth:grant-type:token-exchange`)&&u(`exchange`,`Token exchange (curl)`,`
# ACCESS_TOKEN was issued to this app or for its audience.
curl ${O(n+`/oauth/token`)} \\
  -u ${O(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=${j} \\
  -d subject_token="$ACCESS_TOKEN" \\
  -d subject_token_type=urn:ietf:params:oauth:token-type:access_token`);let d={OIDC_ISSUER:n,OIDC_CLIENT_ID:e.id,...r&&!o?{OIDC_CLIENT_SECRET:`<the secret>`}:{},OIDC_REDIRECT_URI:i,OIDC_SCOPES:a};return u(`env`,`Environment`,Object.entries(d).map(([e,n])=>`${e}=${t(n)}`).join(`
`)),o?l.filter(e=>!e.text.includes(`STEWARD_CLIENT_SECRET`)):l}var V=class{#e=y();get problem(){return r(this.#e)}set problem(e){C(this.#e,e)}#t=y();get checked(){return r(this.#t)}set checked(e){C(this.#t,e)}field(e){return this.problem?.field(e)??``}};function H(e,t){let n=new V;return o(()=>{let r=e(),i=new AbortController,a=setTimeout(async()=>{let e=await W(t(r,i.signal));i.signal.aborted||e&&U(e)||(n.problem=e,n.checked=r)},250);return()=>{clearTimeout(a),i.abort()}}),n}function U(e){return T(e)||e.status===401||e.code===`reauthentication_required`}async function W(e){try{await e}catch(e){return m(e)}}var G=u(`<span class="fault"> </span>`),K=u(`<span class="hint good">This address can be used.</span>`),q=u(`<div class="field"><div class="row uri"><input class="input grow mono" placeholder="https://app.example.com/callback" autocomplete="off" spellcheck="false" inputmode="url"/> <button type="button" class="btn plain square"><!></button></div> <span role="status"><!></span></div>`),J=u(`<div><button type="button" class="btn tiny"><!>Add address</button></div>`),Y=u(`<fieldset><legend> </legend> <p class="small soft"> </p> <!> <!></fieldset>`);function X(i,o){let u=t();x(o,!0);let m=S(o,`uris`,15);var y=Y(),C=p(y),T=l(C,!0),O=e(C,2),A=l(O,!0),j=e(O,2);b(j,17,m,s,(t,i,s)=>{let g=w(()=>o.verdict(r(i)));var _=q(),y=p(_),b=p(y);k(b);var x=e(b,2),S=p(x);d(S,{name:`close`}),E(x),E(y);var C=e(y,2),T=p(C),O=e=>{var t=G(),i=l(t,!0);D(()=>n(i,r(g))),a(e,t)},A=e=>{var t=K();a(e,t)};c(T,e=>{r(g)?e(O):r(g)===``&&e(A,1)}),E(C),E(_),D(()=>{h(b,`name`,o.name),h(b,`aria-label`,`${o.label} ${s+1}`),h(b,`aria-invalid`,r(g)?`true`:void 0),h(b,`aria-describedby`,`${u}-${s}`),h(x,`aria-label`,`Remove ${o.label} ${s+1}`),h(C,`id`,`${u}-${s}`)}),v(b,()=>m()[s],e=>m(m()[s]=e,!0)),f(`click`,x,()=>m(m().filter((e,t)=>t!==s))),a(t,_)});var M=e(j,2),N=e=>{var t=J(),n=p(t),r=p(n);d(r,{name:`plus`}),_(),E(n),E(t),f(`click`,n,()=>m([...m(),``])),a(e,t)};c(M,e=>{m().length<100&&e(N)}),E(y),D(()=>{n(T,o.label),n(A,o.hint)}),a(i,y),g()}i([`click`]);export{L as a,B as c,I as d,P as i,j as l,H as n,R as o,F as r,M as s,X as t,z as u};