<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="zh_CN" sourcelanguage="en">
<context>
    <name>About</name>
    <message>
        <source>A local chat that shows speculative decoding at work: what the EAGLE head drafts, and what the model accepts.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>About Eyrie</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Chats</name>
    <message numerus="yes">
        <source>%n chats could be saved from it.</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>&amp;Delete chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Export chat…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Rename chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A chat in this file is not complete: {error!r}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A comparison of a chat in this file comes twice.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chat: {name}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chat: {name}, pinned</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chats cannot be kept in this session: {error}. What is written now is lost when Eyrie ends.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chats with everything (*.json)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another file or folder.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export all chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Exported to {path}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Folder: {name}, folded</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Folder: {name}, open</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Markdown to read (*.md)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Move to a &amp;new folder…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Move to f&amp;older</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Name of the folder:</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>New chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>New folder</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No chat could be read from it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No folder</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing found</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Older</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>P&amp;in chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Previous 30 days</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Previous 7 days</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reply</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>S&amp;ystem prompt and settings of this chat…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Search chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Search titles and messages of all chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The chat could not be exported: {reason}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The chats cannot be saved: {error}. They are kept in memory and saved as soon as it works.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The chats could not be exported: {reason}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The chats could not be imported: {reason}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The chats were written by a newer version of Eyrie. They can be read here, but nothing new is kept. Update Eyrie, or choose another data folder with --data-dir.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The chats' database was damaged. {saved} The damaged file is kept as {file} in the data folder; if chats are missing, keep it for a repair.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The messages of a chat in this file do not make a tree.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Today</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Undo</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Yesterday</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>You</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>You are editing an earlier prompt. What followed it stays as another version.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>a reply is being written</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>it has no messages yet</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>{count} chats exported to {path}</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} chats imported</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>{count} found</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file} does not hold a list of chats.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file} does not hold chats of Eyrie.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file} is not a JSON file of chats ({error}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file} was written by a newer version of Eyrie. Update Eyrie to read it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{chat}” cannot be read ({error}). Start Eyrie again to have it checked.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{chat}” deleted</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{field}” of a chat or message in this file is not what it should be.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Commands</name>
    <message>
        <source>Chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Commands and chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Find a command</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Type a command or a chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Type a command or the title of a chat</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Compare</name>
    <message numerus="yes">
        <source>%n heads are on this computer.</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more can be downloaded in Models.</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more lines were left out.</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n of {count} texts differ</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n prompts</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n prompts from {file}.</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n repeats</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>&amp;Copy the picture</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;New comparison</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Save the picture…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Start</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>, %n of them by ties within rounding</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A file</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A is faster: its speed over B's</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A is slower: its speed over B's</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A over B</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A penalty forbids one of the two tokens there: a real difference.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A real difference: {side}'s token is ahead, the two lie {apart}; rounding accounts for {noise}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A reply broke off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>A side needs another head: the model is loaded again %n times.</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>A tie within rounding: the two lie {apart}, and rounding accounts for {noise} on this machine.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A tie: the target's logits of the two are equal.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A {a}, B {b} tokens per second</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A, tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A, τ</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>About the same: A's speed over B's</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>After “…{text}”</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>All %n prompts of this chat</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>All files (*)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>All prompts of this chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Another folder…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>As loaded (none)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>As loaded ({head})</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>At the very beginning</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Automatic ({method})</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>B, tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>B, τ</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Both sides answer the same prompts, one reply at a time. Then you see how much faster one is and whether the texts are the same.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Both sides are the same: this shows how much a repeat varies.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Broke off</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a file with prompts.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a file…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another head for this side.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another method or head for it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Close</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Compare again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Compare two settings</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Comparisons kept with this chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy as &amp;text</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Decode speed; the time to read the prompt is left out.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete the chosen comparison</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Eyrie compared two settings</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Finished</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Finished, context full</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Finished, length limit reached</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>First difference at token {number}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Folder of a head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>For both sides</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>From one repeat: more of them would tell how exact it is.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Head</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>Identical: all %n tokens are the same</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Identical: the texts of all {count} prompts</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It was stopped: this is what was complete by then.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>JSON lines with “turns” (or “prompt”, “text”), or a text with one prompt a line</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Kept with this chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Length of the reply, end token included.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Line {number} has no “turns” with a text.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Line {number} is no JSON.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Lists of prompts (*.jsonl *.json *.ndjson *.txt *.md)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Load a model first, or choose a head's folder.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Load a model, then compare again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading the head of this side…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest reply (tokens)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Look for other heads on this computer…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Looking at the logits where the texts part…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Looking for heads on this computer…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Median of {count} repeats, which lie between {low} and {high}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Method</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No model is loaded. Load one to compare.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No other head of this model is on this computer.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No pair of replies has speeds to compare</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Not compared</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Not run</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing was compared yet</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>One token for each pass of the target: what speed is measured against.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Only the first {most} of its {count} prompts are used.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open the chosen comparison</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Over {count} prompts, from {low} to {high} by prompt.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pause drafting while it loses, as in chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Plain decoding</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Plain decoding (EAGLE off)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Progress of the comparison</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt {number} of {count}: {text}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt {number}: {verdict}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt: {text}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompts</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompts, one a line</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reading the prompt…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Repeats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reply {number} of {total}: side {side}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reply: {side}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Restart the engine, then compare again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Result of the comparison</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Results by prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Run &amp;again</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>S&amp;hare</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>S&amp;top</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Save the picture</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Saved as {path}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scroll the comparison</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Seed</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Side {letter}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Some replies are short: longer ones give a steadier figure.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Some replies differ in length. Speed changes with length, so the factor is not exact.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Stop the comparison</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Stopped before a reply was complete. Nothing was compared.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Stopping after what the engine does now…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Swap A and B</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Texts</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The engine is not running.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The figures are in the clipboard.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head {head} cannot be used: {problem}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The margin is not known: {reason}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model was unloaded or changed meanwhile.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The picture could not be saved ({reason}). Choose another folder.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The picture is in the clipboard.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The same as far as both go; one reply did not reach its end</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The sides take turns as A B, B A, …; more repeats tell the spread</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The target itself would write {token}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The temperature is above 0: both sides draw from the target's own distribution with the same seed. They agree where each guess is checked against the drawn token, and differ by design where a method draws its guesses.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The two lie {apart}. Tokens are drawn here, so a difference says nothing against either side.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no prompt to compare on.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>These, one a line</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>They do not agree on which is faster.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This comparison cannot be read. Delete it, and compare again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This model does not know the method “{method}”.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This prompt, with the chat before it</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Time from the request to the first token.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tokens emitted per pass of the target.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tokens per second of both sides</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Undo deleting</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Waiting for its turn</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Waiting for the engine…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What is complete is kept. Load the model again to compare once more.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Without a setting that changes the distribution this is a fault: please report it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Without it a method drafts all the time, also where that is slower</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write a prompt, or choose where prompts come from.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write one, or choose a file.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write or paste prompts, one a line</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Writing…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>a few seconds left</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>a part of a character</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>about %n minutes left</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>about %n seconds left</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>any</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>at most {count} tokens</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>differ at {number}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>identical</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>not complete</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>off</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>on</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>one of the replies had ended there.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>prompt {number} of {total}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>repeat {number} of {total}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>seed {value}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>temperature {value}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>to first token</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tokens</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tokens per step (τ)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{a} or {b}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file} cannot be read ({reason}). Choose another file.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file} holds no prompts.{reason} Choose another file.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file} is not a text in UTF-8. Choose another file.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file} is too large for a list of prompts. Choose a smaller file.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{margin} logits apart</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{method} – not with what is loaded</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{method}, automatic</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{method}, head {head}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{sides} may leave the target's own distribution, so this is expected.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side} cannot be run: {problem}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side} changes the distribution: its text need not be the target's.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side} itself wrote different texts in its repeats.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side} never drafted, so this compares plain decoding.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side} paused drafting in {some} of {all} replies.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side}: head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side}: method</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side}: the reply had ended</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side}: {token} (id {id})</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{side}: {token} (id {id}, the target gives it {chance})</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{speed} tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>{what}: %n replies.</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>{where}, a tie</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Composer</name>
    <message>
        <source>A reply is being written in “{chat}”. Esc stops it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A reply is being written. Esc stops it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Attach text files</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Attach text files (UTF-8, up to {most} kB each); or drop them here</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Attached files</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Enter sends, Shift+Enter starts a new line</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Stop the reply (Esc)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Take {name} away</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write a prompt…</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>{count} bytes</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>{count} kB</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{name}” could not be read: {reason}. Check that you may open it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{name}” is not a file. Choose single text files.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{name}” is not a text file. Only text can be attached.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{name}” is not text in UTF-8. Save it as UTF-8 text and attach that.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{name}” is too large ({size} kB; at most {most} kB can be attached). Attach a part of it.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Engine</name>
    <message>
        <source>Loading was cancelled, and nothing is in memory. A prompt loads the model again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No model is loaded, so nothing can be sent.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The engine has stopped. Restart it to send.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The engine is busy with a comparison.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The engine is starting. You can write already.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The engine stopped unexpectedly.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model is loading. You can write already.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model is unloaded and its memory is free. A prompt loads it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>The model was unloaded after %n minutes without use. A prompt loads it again.</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>The model was unloaded while this was written.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What was received is kept. Load the model again to go on.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What was received is kept. Restart the engine to go on.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Examples</name>
    <message>
        <source>Ask a fact</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Make a list</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Name the planets of the solar system in order.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Replies stream with their draft tree: what the head guessed, and what the target accepted.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tell a short story about a fox who finds a lantern in the snow.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tell a story</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Translate</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Translate to French: The weather is beautiful today.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What is the capital of Peru?</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What shall we write?</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Hub</name>
    <message>
        <source>(The card goes on; its page has the rest.)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A head is loaded together with its model: choose the model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>About</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Access token</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Account</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Account not reached</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Account: {name}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Add a GGUF file…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Add a folder…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>An entered token goes into the system's keyring, or stays until Eyrie ends where there is none. It is sent to the hub alone.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Any family</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Any licence</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Any size</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Based on</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancel and delete</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancel the download</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancel the download of {name}?</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancel, keep what arrived</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancel…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a GGUF file</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a model at the left.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose the folder of a model or a head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Close</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Context</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete a model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete the chosen model from the hub cache</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete {name} from this computer?</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Deleted with it: {names}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Download</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Download of {name}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Download {size}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Downloads</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft with it</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE head, looking for more…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE heads</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Enter a token…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Expected speed-up</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Family</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Files</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Files of the same model in different precisions; one is downloaded</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Files that are downloaded</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Fits this machine</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Forget it</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Go on downloading</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Graphics card</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Has an EAGLE head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Heads for this model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Hub account</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It is being downloaded.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keep it</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Languages</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Last updated</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Licence</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Lies in</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Load</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Looking at it…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Looking at this machine…</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>Looking for heads of %n more models…</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Looking…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Made for</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Make a token…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Model card</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Models</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Models on this computer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>More pairs</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Most downloaded</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Most liked</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Name, or the address of a model's page</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No NVIDIA GPU was found, so models run on the processor: {free} of {total} memory are free.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No model is here yet. Download one, or add a folder or a GGUF file that you have already.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No token is set. Free models need none; gated ones need the token of an account that may read them.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Not known yet whether the head fits.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Not logged in</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Notes</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing was found. Try fewer words, or fewer filters.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Offline</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>On this computer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Only models for which the catalogue or the hub has a head that fits</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open its page</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open the page</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pause</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Quantisation</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Recommended</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Recommended for this machine</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Recommended pairs</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Resume</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Search results</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Search the hub</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Searching…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Size</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Sort by</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The card is being read…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The download of {name} is paused.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The download of {name} stopped. {reason}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head does not fit this model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head fits this model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head fits, with a caveat.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub account that gated models are read with</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The token of the variable HF_TOKEN is used.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The token that you entered is used until Eyrie ends. No keyring could keep it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The token that you entered is used. The system's keyring keeps it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The token that “hf auth login” stored is used.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no model card.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This frees up to {size}. Other programs that use the hub cache lose it, too.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This head does not fit. Choose another one, or none.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Token refused</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Token set</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Too large for this machine</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Try again</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Type to search. With an empty field the most downloaded models are listed.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Up to {size} B</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Updated</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Use the chosen model as draft model for the loaded one; both need the same vocabulary</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Use this token</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>asking the hub which files there are…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>caveat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>checking the checksum</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>does not fit</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>drafts {count} tokens</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>fits</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>hub cache</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>in the catalogue</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>its card does not tell</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>licence on its page</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>made for {model}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>more than 24 GB</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>no room on the disk</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>no speed-up published</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>none was published</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>not checked</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>nothing arrives at the moment</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>on this computer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>paused</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>plain decoding, one token at a time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>ready</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>size unknown</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>stopped</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tight</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>too large</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>up to {factor}× published</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>waiting for its turn</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{action}: {name}</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>{count} bytes</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} downloads</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} likes</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} tokens</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>{device}: {free} of {total} memory are free.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{done} of {total}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{factor}× ({source})</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file}:  {done} of {size}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{file}:  {size}, here</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{hours} h {minutes} min left</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{licence}, gated</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{minutes} min left</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{model}  (has a head)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{name} is downloaded.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{name}:  {value}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{number} B</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{number} M</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{parts}. Estimated from the size alone.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{parts}. Reckoned from the tensors.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{seconds} s left</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{size}   in all</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{size} GB</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{size} GB, tight</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>{size} for {count} tokens</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>{size} free on the disk</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{size} have arrived. Kept, they need not be fetched again later.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{size} head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{size} weights in {format}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{size} workspace</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{size}/s</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Instructions</name>
    <message>
        <source>&amp;System prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a preset…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Clear</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete preset</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Name of the preset:</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Preset</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Save as preset</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Save as preset…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>System prompt and settings of this chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What the model is told before the conversation, for instance its role.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Licence</name>
    <message>
        <source>I understand</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Licence</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Licence text</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Model licence</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{model} is used under these terms.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Link</name>
    <message>
        <source>Copy the address</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Eyrie opens web pages and mail addresses only. You can copy the address.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Open this address?</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model wrote this address. Open it only if you trust where it goes.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This address is not opened</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{beginning}… ({count} characters)</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Loading</name>
    <message>
        <source>4 bits (NF4), on a GPU</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>8 bits, on a processor</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A smaller model with the same vocabulary, for the method of that name.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose the folder of a draft model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose the folder of a smaller model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Context (tokens)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Context: automatic</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>How long a chat can get. A longer one needs more memory.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>NF4 becomes 8 % smaller and a little slower.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No draft model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>None</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Of files that are not quantised yet.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Quantise the scales, too</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model is loaded again when something changes here.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Weights</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Menu</name>
    <message>
        <source>&amp;About Eyrie</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Copy diagnostics</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Copy the last reply</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Draft tree</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;EAGLE</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Edit the last prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;File</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Find a command…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Free the GPU</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Go to the prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Help</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Import chats…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Keyboard shortcuts</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Larger text</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Load the model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Mark accepted draft tokens</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Models…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;New chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Normal text size</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Previous chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Quit</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Restart the engine</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Settings for this model…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Settings…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Smaller text</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Stop the reply</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Tour of the window</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Undo deleting a chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;View</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>&amp;Write the last reply again</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>C&amp;ompare two settings…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancel loa&amp;ding</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Comp&amp;arisons of this chat…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Con&amp;tinue the last reply</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy the chat as &amp;Markdown</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export &amp;all chats…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Find, download and load models and heads</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Model l&amp;icence…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Ne&amp;xt chat</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Run two settings side by side: EAGLE on and off, methods, heads</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Searc&amp;h chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Show or hide the chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Show or hide the draft tree</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Unload the model and give its memory back</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Version &amp;before</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Version a&amp;fter</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Methods</name>
    <message>
        <source>Automatic ({method})</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose the drafting method</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draftin&amp;g method</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{method} – not available</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Model settings</name>
    <message>
        <source>Answer at once</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>As the model does</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Changes the distribution: the reply no longer follows the model's own.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Default ({value})</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Drafting</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Drafting method</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>For chats that have none of their own</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>On</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Replies</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Settings for this model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>System prompt for chats that have none of their own</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The method that suits this model, with what the engine measured.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Think first</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What is set here wins over the settings; what a chat has its own way wins over this.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>off</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>on</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{setting}: default</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Notices</name>
    <message>
        <source>Cancel</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancel loading</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy details</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE is not available. {why}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Eyrie did not end properly last time.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Load the model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading progress</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No EAGLE head is loaded for this model, so replies are decoded one token at a time.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No details are known.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Restart engine</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Something unexpected went wrong: {kind}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Starting the engine…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This is a tiny demo model. It shows how speculative decoding works, but it makes things up: do not rely on its answers. Better models come from the model hub.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Try again</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Undo</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What was received is kept.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>You can go on; the log has the details.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Panel</name>
    <message numerus="yes">
        <source>%n guesses</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n levels</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n passes ago</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n places</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n rows</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n steps</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n tokens</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n tokens earlier</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>, more than any other token</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>, number {rank} of all tokens</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>, number {rank} of all {count}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>, number {rank} of its {count} guesses here</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A guess that follows a rejected one, so it was never looked at.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A guess that the target confirmed: a token for free.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A guess where the target chose another token.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A language model writes one token (a word or a piece of one) at a time, and each token costs a pass through the whole model, here called the target. It is like a careful author who reads the whole text again before every word.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A quick helper guesses how the text goes on, one token after the other. That is the row, read from left to right. The target then checks all guesses in a single pass. It keeps them up to the first one it disagrees with, and puts a token of its own in that place, the bonus token. What follows a wrong guess is thrown away.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A small, quick helper guesses several ways the text may go on. That is the tree, read from left to right: the thicker a line, the surer the guess. The target then checks all guesses in a single pass. It keeps the longest path it agrees with (the straight line at the top) and adds one token of its own, the bonus token. Everything else is thrown away.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Acceptance by depth</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Acceptance length: tokens emitted per pass of the target so far, the bonus token included. Without guessing it is 1.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Accepted</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Accepted: the target chose this token too</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>All steps as JSON…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>All steps as an animated GIF…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Already chosen in the step before; the guesses start from it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>An animation holds {most} steps at most; the reply has {total}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>At step {step}: {notice}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Beside them a window of {rows} over {places}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Bonus</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Bonus token</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Bonus token: chosen by the target itself, root of the next step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Bonus token: chosen by the target itself. It ends the step and is the next root.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancelled. Nothing was written.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another file or folder.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chosen by the target</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chosen: no guessing, because it would be slower now.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Chosen: {rows}, {levels}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy the selected rows, or the whole table</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Decode speed so far, in tokens per second; the time to read the prompt is left out. In brackets: the last 2 seconds.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Depth</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Depth {depth}: accepted in {accepted} of {steps} that guessed this far ({share} %)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft tree</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft tree as a table</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft tree panel</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Enter shows a token in the text</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Expected on this machine, by rows that the target checks in one pass:</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Export…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>First step (Home)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Fit</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Fit the whole tree into the view</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Follow the reply again (Space)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Follows</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Free some space, or choose another disk.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Guesses that the target confirmed, of all guesses so far. Only one path of a tree can be accepted, so the share is low even when guessing does well.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Guesses, checked in this pass</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Guessing is off: one token per step. There is nothing to draw; the timeline below still shows every step.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Last step (End)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Legend of the draft tree</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Live</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Live +{count}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No reply yet.
Send a message, and the guesses behind every token grow here.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No steps yet</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Not a guess yet: the target works these out on the side, to find the next guesses.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Not reached</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Not reached: a guess before it was rejected</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing has been guessed yet.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing has been measured yet.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing may be written into the folder “{folder}”.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing was guessed in this step.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>One exception: with “typical acceptance” the target also keeps guesses that it would not have chosen itself. That setting is off unless you choose it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>One step back (Left)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>One step forward (Right)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Over the last 2 seconds: τ {tau}, {speed} tokens per second</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Pause (Space)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Picture</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Progress of the export</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt pass</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt pass, then {steps}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt pass: the target read the prompt and chose the first token, {tokens}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reading the prompt…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Rejected</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Rejected: the target chose another token here</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Rejected: the target chose {token} here</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Root</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Root: chosen by the target in the step before</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Save this step or all steps as a file</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Saved as {path}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scroll the panel</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scroll the tree sideways</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scroll the tree up and down</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Show the step as a picture</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Show the step as a table</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Since step {step}: {notice}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>So one pass can give several tokens, and the target still decides every one of them: wrong guesses cost a little time, never quality. τ (tau) is how many tokens a pass gave on average; without guessing it is 1.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Speed by size</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step of the reply</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step {step}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step {step} of {last}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step {step}, plain decoding: the target chose {tokens}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step {step}: {accepted} of {guesses} accepted, {count} emitted: {tokens}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Table</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Target</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Target rank</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Target token</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The course of a reply appears here.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The draft gave it {percent}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The file could not be made: {reason}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The guesses of this early step were given up to save memory; its token and figures are kept.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The helper at work is called {name}. {about}</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>The last %n steps up to here as an animated GIF…</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>The reply ended before its first token.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The target gave it {percent}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The target read the prompt and chose this token by itself. Guessing starts from it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The text's last words, {words}, also stood {where}. The guesses are what followed them there.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no folder “{folder}”.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no helper here: the target guesses for itself. In the grid it fills in several places of the text ahead at once, roughly at first and better with every pass. Sequences of words that come up there are collected, and those that begin with the text's last token stand above as guesses. The target checks them in the same pass, keeps the longest beginning that it agrees with and adds a token of its own, the bonus token.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no room left on the disk for “{name}”.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This step as PNG…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This step as SVG…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Time of this step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Token</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Token id</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Token {token}, id {id}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tokens per step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Try another format; the log has the details.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Verdict</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What am I looking at?</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What the target would have given it was not worked out</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Which pass of the target is shown.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Window</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Window ({row}): not a guess, but where the next guesses come from</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Window: places ahead that the target fills in on the side</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Writing “{name}”…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Zoom in (Ctrl++)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Zoom out (Ctrl+−)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>a token</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>accept</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>accepted/drafted</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>accepted/drafted, {share} %</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>and the whole path {percent}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>draft</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>draft: the guesses are made. verify: the target checks all of them in one pass. accept: choosing the path and tidying the cache. other: the rest.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>none</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>other</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>step of {last}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tokens per step (τ)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tokens/s (now {speed})</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>tokens/s, up to {speed}</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>up to %n rows</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>verify</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>without guessing: {speed} tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{accepted} of {drafted} guesses accepted so far</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{kind}, depth {depth}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{rows}: {speed} tokens/s, {tokens} tokens a step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{speed} tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{steps}, {least} to {most} tokens each; lately τ {tau} and {speed} tokens per second</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{step}: {tokens}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{total} in all: {parts}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{name}” could not be written: {reason}.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Reply</name>
    <message>
        <source>Acceptance length τ: tokens gained per pass of the target model, the bonus token included. Plain decoding has 1.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Continue this reply</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Conversation</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy this code</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy this code ({language})</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy this prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy this reply</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Copy this reply as Markdown</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>Drafted: {count} tokens, accepted {accepted} ({share})</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>EAGLE</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Edit this prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Go to the newest text</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Opens only after you confirm: {address}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Passes of the target after the prompt: {count}</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>Prompt: {count} tokens, {reused} of them kept from the turn before</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Reading the prompt ({count} tokens)…</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Reading the prompt: {done} of {count} tokens</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Reply</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reply of the model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reply of {model}</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>Show all {count} lines</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Show or hide what the model thought before it answered</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>Show {count} earlier messages</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Show {some} of {count} lines more</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Step {number}: chosen by the target</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Step {number}: drafted by the head, accepted by the target</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Thinking… {length}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Thought for about {time} · {length}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Thoughts of the model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Thoughts of {model}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Thoughts · {length}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tokens per second while writing; reading the prompt is left out.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Version after</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Version before</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Version {place} of {count}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Waiting for the engine…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write this reply again</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Your prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>complete</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>context is full</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>ended by an error</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>first token after {time}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>length limit reached</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>mixed</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>plain</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>stopped by you</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>text</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>{count} tokens</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} words</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>{name}, part {number}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{number} ms</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{number} s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{number} tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Settings</name>
    <message>
        <source> min</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source> pt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>0 (greedy)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time; higher is freer.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Above 1 makes what was said less likely; 1 is off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>An unloaded model comes back with the next prompt.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>As the system</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Close</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Dark</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Depth</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Different each time</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft tree</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Drops tokens below this share of the likeliest one's probability; 0 is off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Eyrie speaks it when it is started the next time.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Follow the system</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Font size</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Gives the GPU back when nothing was asked for so long.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>How far the EAGLE head guesses ahead: changes the speed, not what the model would choose.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keeps the likeliest tokens that together have this probability.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keeps this many of the likeliest tokens; 0 switches the filter off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Language</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Levels below the root.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Light</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest reply (tokens)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Mark accepted draft tokens in replies</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Memory</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Min-p</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Never</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No repeat of</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nodes</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Own value</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reduce motion: show new text and trees a few times a second</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Replies</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Restore defaults</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Seed</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Settings</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>So many tokens in a row never come twice; 0 is off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Some settings were not valid and have their default again: {names}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Taken from tokens that the reply has already; 0 is off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The old file is kept as {file}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The same for each time that it has them; 0 is off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The same seed and settings give the same reply again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The settings could not be saved: {error}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The settings file could not be read, so the defaults apply.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Theme</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tokens checked in one pass of the target, the root included.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Top-p</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Unload after</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Unload without use</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Used from the next reply on.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>off</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{setting}: own value</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{setting}: {choice}</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Shortcuts</name>
    <message>
        <source>Command</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft tree: first and last step</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft tree: hold and follow</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft tree: step before, step after</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>In the parts of the window</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keys</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>List of chats: delete</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>New line in the prompt</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Send the prompt</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Tool bar</name>
    <message>
        <source>Compare</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft with {head} (Ctrl+E): changes the speed, not what the model would choose.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE can be switched once a model is loaded.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE not available</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The menu beside it has methods that need none.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This model has no EAGLE head.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tools</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{about} (Ctrl+E)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{method} off</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{method} on</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Tour</name>
    <message>
        <source>A small head guesses several words ahead; the model checks all guesses at once. Here you see which it accepted. The reply stays the model's own, it only comes faster.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Done</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE on and off</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Everything runs on this computer. Enter sends, Esc stops a reply; what came stays.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Next</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Skip</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Switch the guessing off to see the difference, or compare both side by side.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The draft tree</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>They are kept on this computer as you write. Search in all of them with Ctrl+F; every command is found with Ctrl+K, and ? lists the keys.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tour of the window</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write here</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Your chats</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{place} of {stops}</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>Window</name>
    <message>
        <source>Diagnostics copied</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading…</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Model unloaded</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Ready</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>Reply finished, {count} tokens.</source>
        <translation type="unfinished">
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>The model is loading. Your prompt is sent as soon as it is there.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Unloaded</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Writing</source>
        <translation type="unfinished"></translation>
    </message>
</context>
<context>
    <name>engine</name>
    <message>
        <source>A guess that the drafter gives less than this gets no guesses of its own; 0 switches it off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A guess with this probability always stands under typical acceptance.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A logit bias names a token that the model does not have.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A mixture of experts, where drafting gains little.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A mixture of experts. Its makers measured acceptance lengths of 3.4 to 5.3 on HumanEval.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A mixture of experts: bitsandbytes does not quantise its experts, so that it needs far more than 24 GB.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A mixture of experts: bitsandbytes does not quantise its experts.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A part of the demo model is damaged: {0} has the SHA-256 {1}… where {2}… is expected.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A part of the demo model is damaged: {0} has {1} bytes where {2} are expected.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A part of the demo model is missing: {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A small head continues states from three depths of the model; the tree grows where the head is sure.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A small head continues the model's last state; the tree grows where the head is sure of itself.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A small head guesses along a tree of fixed shape. Any EAGLE head can be used, so that the fixed tree can be compared with the growing one.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>A smaller model of the same family writes ahead, and the large one checks.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>AWQ of version “{0}” is not known.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Accept its licence on its page (some owners confirm by hand), then try again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Accept its licence on its page, then enter an access token of your account.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Acceptance</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>AngelSlim benchmarks with vLLM, one GPU, a chain of drafts</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>At temperatures above 0, draw guesses from the drafter's own distribution, as published, and verify them by p/q. Off: try its likeliest tokens; a seed's text is then that of plain decoding.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Branches</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Cancel this download and start it again to get the new version.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY, or the system's proxy settings, then start Eyrie again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Check its permissions, or choose another cache folder with HF_HUB_CACHE.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Check that the folder holds a whole model, or download it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Check the connection and the proxy settings, or set HF_ENDPOINT to a mirror.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Check the name. A private repository needs a token that may read it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Check the permissions of that folder, or set EYRIE_DATA_DIR to one that can be written.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Check the rights of the token.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Checking the demo model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Checking the file</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Checking the head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Children considered for each node, and nodes expanded at each level.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a .gguf file, or a folder with a model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a Llama, Mistral, Qwen or Gemma model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a folder that holds a model, or a .gguf file.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a folder that holds config.json and model.safetensors.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a head made for this model, or chat without one.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a head made for this model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a head that reads three layers.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a model that ships one, or download it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a newer file of this model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a version of the model in the safetensors format.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose a version of the model that has a tokenizer.json.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose an EAGLE-1, EAGLE-2, EAGLE-3 or Medusa head.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose an EAGLE-3 head.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose an instruction-tuned model (its name often ends in -it, -Instruct or -Chat).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another file of this model, for example Q4_K_M or Q8_0.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another file of this model, or its safetensors version.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another file.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another head.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another head: this variant is not supported.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another model or download it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another model: Llama, Mistral, Qwen, Gemma, Phi or Mixtral work with EAGLE.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another one to draft with.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another repository.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose another version of this model, for example the unquantised one.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose cpu or cuda.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose cuda:0 or cpu.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose heads of version 0.1, which belong to an unchanged model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose nf4 for this GPU.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose one of them, for example {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose one of {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose the folder again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose the folder that holds config.json.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose the head in 16 bits; Eyrie quantises it itself.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Choose the safetensors version of this model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Close other programs or choose a smaller model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Compare a shorter reply.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Compare with the same model again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Confidence threshold</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Converting the tokenizer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Converting the weights</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Correct the file, or delete it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete that folder and load again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete the file and download it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete the model and download it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete the model and download it again; if it stays, the model itself is damaged.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Delete this file and download it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Depth</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Do not use this file: it may carry a program. Look for a head in safetensors format.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Do not use this file; choose a version of the model in the safetensors format.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Do not use this model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Download the file first.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Download the head again or choose another.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Download the head again, or choose one whose config.json belongs to its weights.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Download the head again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Download the model again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Downloads keep what has arrived and go on once it is asked something again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Drafting pauses, because it loses.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Draw the guesses</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE was not asked for.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE works with {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE-1</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE-2 paper, table 1 (mean of 6 tasks, greedy, with the dynamic tree)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE-3 paper, table 1 (mean of 5 tasks, greedy, one GPU, against plain transformers)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>EAGLE-3 paper, table 1, row EAGLE-2 (mean of 5 tasks, greedy)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Enter another token, or run “hf auth login” again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Explain in a few sentences why the sky is blue.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Eyrie ended while this reply was written.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Five heads with an output table each.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Free some space, or choose a cache folder on another disk with HF_HUB_CACHE.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Free some space, or set EYRIE_DATA_DIR to a folder on another disk.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Free some space, then resume the download.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Free some space, then resume the download; what has arrived is kept.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Free space or change its permissions, or set {0} to a folder that can be written.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>From {0} steps: {1} tokens in {2} ms a step, {3}× plain decoding.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Future positions that each pass fills.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Guesses</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Guesses after each guess: 1 makes a chain, more a tree.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Guesses that the text goes on as it did when its last words stood here before. Needs no second model, and helps where a reply repeats its prompt.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>How many different continuations are tried at once, the newest first.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>In the token's settings, tick “Read access to contents of all public gated repos you can access”, or use another token.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Install or update the NVIDIA driver, or choose the device cpu.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It could not be checked whether this head fits.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It does not say which layers it taps, and the usual ones do not exist in {0} layers.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It has none at all.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It must be a number.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It must be a text.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It must be a whole number.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It must be between {0} and {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It must be on or off.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It must be one of {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It must be {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It needs Medusa heads. Choose some that were made for this model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It needs a smaller model with the same vocabulary to draft with.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It needs an EAGLE head. Choose one for this model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It needs embeddings of width {0}, this model's have {1}, and it brings none.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It runs plainly, through transformers.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It taps layer {0}, the model has {1} layers.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It was made for a vocabulary of {0} tokens, this model has {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It was made for hidden size {0}, this model has {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>It was made for {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Its configuration names the outputs of layers 1, 11 and 21.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Its features are normed before the residual sum; its own configuration says so.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Its files cannot be understood ({0}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Its fusion layer has no bias.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Its size is not known.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Keys and values take half a megabyte a token: no grouped queries.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Leave out --quant.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Length of the n-grams that are collected and tried; the window is one less deep.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Levels of guesses below the root.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Load a model first.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Load the model again to start over.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading the EAGLE head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading the draft model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading the model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading the weights</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Loading {0} through transformers</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Longest match</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Look at the list of its files.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Lookahead</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Lossless: what the model would have said. Typical: also what it finds likely enough; faster, but the replies are no longer the model's own.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Matches of fewer tokens are not used.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Measuring how to read the EAGLE head</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Measuring this machine</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Medusa</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Medusa heads do not say their size in their config.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>N-gram</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>N-grams tried in one pass.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Name five fruits and a use of each.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Name {0}, or write paths of ranks such as [[0], [1], [0, 0]].</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Names look like owner/model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Needs bfloat16. Trained on English; users measured an acceptance length of only 2.14.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Needs {0}{1} GB; {2} GB of {3} can be used.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Needs {0}{1} of {2} GB that can be used; {3} GB stay free.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No EAGLE head was chosen for this model. Choose one to switch EAGLE on.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nodes</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Not by EAGLE's authors.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Nothing is adapted. The sizes to begin with: {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Only http:// and https:// proxies are understood.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Packing the weights</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Plain decoding</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Preparing the model was stopped.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Prompt lookup</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Put all its parts into the same folder, then choose it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Quantising the weights (once)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reading the tokenizer</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Reading the weights</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Refresh the list.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Restart the engine and write the reply again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Row-wise int8 is a format for CPUs.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Rows verified in one pass of the target, root included.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Run Eyrie's set-up again on a machine with an NVIDIA GPU, or choose the device cpu.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Run `git lfs pull` in that folder, or download the model in Eyrie.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Run `python packaging/bootstrap.py --repair` in the folder of Eyrie to install it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Run `python packaging/bootstrap.py` in the folder of Eyrie to install it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Scales the threshold down where the model is unsure, under typical acceptance.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Several heads guess the next positions all at once; a fixed tree combines their likeliest tokens.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Shorten the message, or start a new chat.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Shortest match</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Small and free; the best pair to begin with.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Spec-Bench, A100 (overall, batch 1, greedy, 16 bits)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Spec-Bench, A100, with the dynamic tree of EAGLE-2 (overall, batch 1, greedy, 16 bits)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Spec-Bench, RTX 3090 (overall, batch 1, greedy, 16 bits)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Spec-Bench, RTX 3090, with the dynamic tree of EAGLE-2 (overall, batch 1, greedy, 16 bits)</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>SpecBundle, MT-bench at batch 1 with a chain of 3, 190 to 404 tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Start a new chat or shorten the messages.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Start a new chat, or take the system prompt out. If it happens again, use another model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The architecture “{0}” is not one that EAGLE runs on here.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The best of the three on mathematics and code.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The cache does not hold {0} at {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The catalogue lists it for this model; its files have not been looked at yet.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The chat template of {0} does not accept this conversation: {1}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The chat template of {0} is broken (line {1}: {2}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The context of {0} tokens is full.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The device “{0}” is not supported.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The disk is too full: {0} must be free for {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The disk with {0} has {1} GB free; {2} still needs {3} GB.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The disk with {0} is full.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The download failed: {0}: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The draft model cannot be used.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The draft vocabulary has not been verified.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The engine failed: {0}: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The engine stopped before it got the prompt.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The file counts {0} Medusa heads of {1} blocks, more than make sense.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The file holds no whole Medusa head.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The files are incomplete or of another kind of model. {0}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The files do not belong together, or the architecture is another: choose another model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The files do not belong together: delete the model and download it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The folder {0} cannot be made ({1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head has biases in its MLP, which no known format has.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head is quantised.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head uses {0} where silu is known.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head was made for {0}, which has the same shape; with another model it drafts worse.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head was trained on Chinese.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking, which this model does not do: it drafts less well.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking: leave thinking on, or it drafts less well.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking; where thinking is off it drafts less well.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head was trained on replies without thinking, and this model always thinks: it drafts less well.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head was trained on replies without thinking: switch thinking off, or it drafts less well.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head was trained on texts of up to {0} tokens; in longer chats it drafts less well.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head's config.json makes no sense: {0} is {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head's config.json makes no sense: {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head's files leave open how to read it. Measured on the model's own replies: {0} ({1} tokens a step, otherwise {2}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The head's folder {0} does not exist.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The header of the head's file is damaged.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The header of {0} is damaged (a gap or overlap at byte {1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The header of {0} is damaged ({1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub at {0} cannot be reached ({1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub cannot be reached, because {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub describes {0} in a way that cannot be used.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub does not accept the token: it is wrong, or it has expired or been revoked.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub has no such {0}: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub is busy (status {0}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub is not asked, because HF_HUB_OFFLINE is set.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub refuses access to {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub refuses the request for {0} (status {1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The hub sends the download to an address that is not encrypted.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The installed torch is the version for CPUs.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The length of n-grams not to repeat is {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The loaded head is for {0}. Choose an {1} head for this model.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The margin was asked of a token that the model does not have.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model alone, one token at a time: what every other method is measured against.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model fills a window of future positions beside its own next token and keeps the n-grams that come up. Needs no second model, but many rows a pass.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model has the tensor {0}{1}, which its config.json does not explain.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model in {0} lacks the tensor {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model is a mixture of experts, where drafting gains little.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model is ready</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model lacks the tensor {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model runs without EAGLE.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model that is loaded now is unloaded first.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The model's {0} is not supported.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The most tokens at the end of the text that are looked for earlier in it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The official head with the paper's best numbers (5.51 there).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The official head, for a model that thinks before it answers.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The official head; trained on texts of up to 2,048 tokens.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The package {0} with the demo model is not installed ({1} is missing).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The part of Eyrie that talks to the hub stopped unexpectedly.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The place is at token {0}, the context holds {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The prompt has {0} tokens, the context holds {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The prompt is empty.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The proxy {0} asks for a name and a password, or does not accept those it was given.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The proxy {0} cannot be used: its address is wrong, or it is a SOCKS proxy.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The proxy {0} does not let anything through to {1} (status {2}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The published tree, or paths of ranks such as [[0], [1], [0, 0]]; its likeliest part is used where nodes or depth allow no more.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The quantised weights in {0} cannot be read.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The repetition penalty is {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The reply length is {0} tokens.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The target stays in its own MXFP4.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The temperature is {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0} has shape {1} where config.json asks for {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0} has {1} bytes for {2} × {3}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0} holds values that are not finite numbers (NaN or infinity).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0} holds {1}, not numbers of 16 or 32 bits.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0} is both in {1} and in {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0} is in two of the head's files.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0} of {1} has shape {2} where {3} is expected.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0} of {1} is quantised in an unknown way ({2}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0}.absmax or .quant_map has an unexpected size.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0}.g_idx has groups of unequal size.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0}.weight has shape {1} where config.json asks for {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tensor {0}.{1} is damaged ({2}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The token may not read gated repositories such as {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tokenizer in {0} cannot be converted ({1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tokenizer of {0} decodes with {1}, which cannot be shown as it is written.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The tree “{0}” makes no sense: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>The {0} is full.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no GPU {0}; {1} were found.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no file {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no method “{0}”.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no model folder {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no model folder {0}: it {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>There is no user message to answer.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>These Medusa heads come inside a model that was trained with them (Medusa-2).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This drafter is of the kind {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This failed: {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This head belongs to another model. {0}{1}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This head does not say which layers it taps, and the usual ones do not exist in a model of {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This head drafts all tokens at once, which is not supported.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This head guesses no better than chance for this model: it foresees nothing of the model's own replies. It was made for another model, or its file is damaged. Replies stay right, but they do not get faster: choose another head, or chat without one.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This head has DeepSeek's multi-head latent attention.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This head reads the model's final state only, a variant of EAGLE-3 that is not supported.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This head sets {0} to {1}, a variant that is not supported.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This is a {0} drafter, not an EAGLE head.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This is no EAGLE head: it has no attention layer of its own.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This is no EAGLE head: it has several layers, as a whole model has.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>This is no EAGLE-3 head: {0} holds a head {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Token ids are 0 to {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Tree</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Try again in a few minutes.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Try again later, or from another network: something on the way changes the data.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Try again later.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Try again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Try again; if it stays, report it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Try later.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Type a message first.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Typical: delta</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Typical: threshold</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Update the NVIDIA driver, or choose the device cpu.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Use a model that is already here, or unset HF_HUB_OFFLINE and start Eyrie again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Waiting for another Eyrie that prepares the same model</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Weights quantised by {0} are not read here.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What had come is kept: continue it, or write it again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>What has arrived is kept. Check {0} and resume the download.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Window</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write a Python function that reverses a list.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write a message and send it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Write them into HTTP_PROXY and HTTPS_PROXY (http://name:password@host:port), then start Eyrie again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>Writing into {0} failed ({1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>a namespace cannot hold {0}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>bitsandbytes, which 4-bit weights need, does not load ({0}: {1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>config.json lacks or garbles a field: {0}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>its author, 147 to 231 tokens/s</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>its author, 186 to 365 tokens/s on an H200 with SGLang</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>torch finds no NVIDIA GPU.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>transformers cannot load {0} either: {1}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} arrived damaged: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} cannot be read ({1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} cannot be read as JSON: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} cannot be read: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} cannot be used here.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} cannot be written: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} changed on the hub while it was downloaded.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} could not be downloaded: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} does not exist.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} does not hold a JSON object.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} does not hold named tensors.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} does not list the head's files.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} does not say what kind each token is.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has a token twice in its vocabulary.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has a tokenizer of kind {1}, which cannot be converted yet.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has an unknown tensor: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has another vocabulary than the model. Choose a smaller model of the same family.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has neither {1} nor {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has no file {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has no setting “{1}”.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has no such {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has no tokenizer.json.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} has no {1}, only {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} holds more than tensors and was not opened: {1}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} holds no GGUF files.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} holds no JSON object.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} holds no weights that Eyrie can read.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} holds numbers of the kind {1}, which torch lacks.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} holds something other than tensors, which is not opened.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} holds the tensor {1}, which {2} of this kind does not have.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} holds {1} GGUF files.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is a GGUF file of version {1}; versions 2 and 3 are known.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is a Git LFS pointer, not the weights themselves.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is a sentencepiece model of another kind than Llama's.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is a {1} model; only {2} can be read from GGUF.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is gated, and your account has not been let in.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is gated: the hub gives it only to people who are logged in.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is missing in {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is missing, and so is pytorch_model.bin.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is missing.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is no GGUF file.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is no plain list of named tensors.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is no whole model: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is not a JSON object.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is not a complete PyTorch file: {1}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is not a complete safetensors file: {1}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is not a complete safetensors file: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is not a safetensors file ({1} bytes).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is not a sentencepiece model ({1}).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is not a usable GGUF file: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is not supported.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is not valid JSON: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is one of several parts, and not all of them are here.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is quantised as {1}, which cannot be converted.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is the largest that has room on the disk; {1} {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is the smallest; not even it has room on the disk.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is the usual choice: small, and close to the original.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is tried again.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is truncated or damaged: its header runs past the end at {1} bytes.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is truncated: {1} bytes where {2} are expected.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is truncated: {1} bytes, and its header alone needs {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} is {1}: {2} bytes where {3} are expected.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}, which {2} says is in it.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}{2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} lists no tensors.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} names {1} as {2}, outside its vocabulary.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} needs {1} GB of the {2} in {3}, and {4} of {5} GB are free{6}</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} of {1} cannot be read: {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} of {1} is no safetensors file: {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} points outside of its folder: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} runs through transformers.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} still needs {1} GB; the disk with {2} has {3} GB free.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0} {1}: it makes the reply slower here. It is tried again after {2} tokens.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}: config.json says {1} {2}, but the tensors have {3}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}: d2t points to token {1}, outside the vocabulary of {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}: t2d does not mark the same tokens as d2t.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}: the draft tokens in d2t are not strictly increasing.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}: {1} belongs to other RoPE settings than config.json's.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}: {1} has shape {2}, expected {3}{4}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}: {1} holds values that are not finite numbers.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}: {1} holds {2}, expected {3}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}: {1} is of the type {2}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{0}× published: {1}.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{name} has no chat template of its own; the one its makers describe is used.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>{name} has no chat template: it may be a base model, which continues text and was not taught to answer. A plain User/Assistant form is used. For answers, choose an instruction-tuned model (its name often ends in -it, -Instruct or -Chat).</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{0}” is no name of a repository.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{0}” is not a device.</source>
        <translation type="unfinished"></translation>
    </message>
    <message>
        <source>“{0}” is not a weight format.</source>
        <translation type="unfinished"></translation>
    </message>
</context>
</TS>
