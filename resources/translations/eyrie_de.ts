<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de" sourcelanguage="en">
<context>
    <name>About</name>
    <message>
        <source>A local chat that shows speculative decoding at work: what the EAGLE head drafts, and what the model accepts.</source>
        <translation>Ein lokaler Chat, der spekulatives Dekodieren bei der Arbeit zeigt: was der EAGLE-Head entwirft und was das Modell annimmt.</translation>
    </message>
    <message>
        <source>About Eyrie</source>
        <translation>Über Eyrie</translation>
    </message>
</context>
<context>
    <name>Chats</name>
    <message numerus="yes">
        <source>%n chats could be saved from it.</source>
        <translation>
            <numerusform>%n Chat konnte daraus gerettet werden.</numerusform>
            <numerusform>%n Chats konnten daraus gerettet werden.</numerusform>
        </translation>
    </message>
    <message>
        <source>&amp;Delete chat</source>
        <translation>Chat &amp;löschen</translation>
    </message>
    <message>
        <source>&amp;Export chat…</source>
        <translation>Chat &amp;exportieren…</translation>
    </message>
    <message>
        <source>&amp;Rename chat</source>
        <translation>Chat &amp;umbenennen</translation>
    </message>
    <message>
        <source>A chat in this file is not complete: {error!r}.</source>
        <translation>Ein Chat in dieser Datei ist unvollständig: {error!r}.</translation>
    </message>
    <message>
        <source>A comparison of a chat in this file comes twice.</source>
        <translation>Ein Vergleich eines Chats in dieser Datei kommt zweimal vor.</translation>
    </message>
    <message>
        <source>A part of the chats cannot be read ({error}). Start Eyrie again to have it checked.</source>
        <translation>Ein Teil der Chats kann nicht gelesen werden ({error}). Starten Sie Eyrie neu, um ihn prüfen zu lassen.</translation>
    </message>
    <message>
        <source>Another export or import is not finished yet. Wait for it, or cancel it.</source>
        <translation>Ein anderer Export oder Import läuft noch. Warten Sie ihn ab, oder brechen Sie ihn ab.</translation>
    </message>
    <message>
        <source>Chat: {name}</source>
        <translation>Chat: {name}</translation>
    </message>
    <message>
        <source>Chat: {name}, pinned</source>
        <translation>Chat: {name}, angeheftet</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>Chats</translation>
    </message>
    <message>
        <source>Chats cannot be kept in this session: {error}. What is written now is lost when Eyrie ends.</source>
        <translation>Chats können in dieser Sitzung nicht aufbewahrt werden: {error}. Was jetzt geschrieben wird, geht verloren, wenn Eyrie endet.</translation>
    </message>
    <message>
        <source>Chats with everything (*.json)</source>
        <translation>Chats mit allem (*.json)</translation>
    </message>
    <message>
        <source>Choose another file or folder.</source>
        <translation>Wählen Sie eine andere Datei oder einen anderen Ordner.</translation>
    </message>
    <message>
        <source>Export all chats</source>
        <translation>Alle Chats exportieren</translation>
    </message>
    <message>
        <source>Export chat</source>
        <translation>Chat exportieren</translation>
    </message>
    <message>
        <source>Exported to {path}</source>
        <translation>Exportiert nach {path}</translation>
    </message>
    <message>
        <source>Exporting “{name}”…</source>
        <translation>„{name}“ wird exportiert …</translation>
    </message>
    <message>
        <source>Folder: {name}, folded</source>
        <translation>Ordner: {name}, eingeklappt</translation>
    </message>
    <message>
        <source>Folder: {name}, open</source>
        <translation>Ordner: {name}, ausgeklappt</translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation>Chats importieren</translation>
    </message>
    <message>
        <source>Importing “{name}”…</source>
        <translation>„{name}“ wird importiert …</translation>
    </message>
    <message>
        <source>Markdown to read (*.md)</source>
        <translation>Markdown zum Lesen (*.md)</translation>
    </message>
    <message>
        <source>Move to a &amp;new folder…</source>
        <translation>In neuen O&amp;rdner verschieben…</translation>
    </message>
    <message>
        <source>Move to f&amp;older</source>
        <translation>In &amp;Ordner verschieben</translation>
    </message>
    <message>
        <source>Name of the folder:</source>
        <translation>Name des Ordners:</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>Neuer Chat</translation>
    </message>
    <message>
        <source>New folder</source>
        <translation>Neuer Ordner</translation>
    </message>
    <message>
        <source>No chat could be read from it.</source>
        <translation>Daraus konnte kein Chat gelesen werden.</translation>
    </message>
    <message>
        <source>No folder</source>
        <translation>Kein Ordner</translation>
    </message>
    <message>
        <source>Nothing found</source>
        <translation>Nichts gefunden</translation>
    </message>
    <message>
        <source>Older</source>
        <translation>Älter</translation>
    </message>
    <message>
        <source>P&amp;in chat</source>
        <translation>Chat &amp;anheften</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>Angeheftet</translation>
    </message>
    <message>
        <source>Previous 30 days</source>
        <translation>Letzte 30 Tage</translation>
    </message>
    <message>
        <source>Previous 7 days</source>
        <translation>Letzte 7 Tage</translation>
    </message>
    <message>
        <source>Reply</source>
        <translation>Antwort</translation>
    </message>
    <message>
        <source>S&amp;ystem prompt and settings of this chat…</source>
        <translation>S&amp;ystem-Prompt und Einstellungen dieses Chats…</translation>
    </message>
    <message>
        <source>Search chats</source>
        <translation>Chats durchsuchen</translation>
    </message>
    <message>
        <source>Search titles and messages of all chats</source>
        <translation>Titel und Nachrichten aller Chats durchsuchen</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>System-Prompt</translation>
    </message>
    <message>
        <source>The chat could not be exported: {reason}.</source>
        <translation>Der Chat konnte nicht exportiert werden: {reason}.</translation>
    </message>
    <message>
        <source>The chats cannot be saved: {error}. They are kept in memory and saved as soon as it works.</source>
        <translation>Die Chats können nicht gespeichert werden: {error}. Sie bleiben im Arbeitsspeicher und werden gespeichert, sobald es geht.</translation>
    </message>
    <message>
        <source>The chats could not be exported: {reason}.</source>
        <translation>Die Chats konnten nicht exportiert werden: {reason}.</translation>
    </message>
    <message>
        <source>The chats could not be imported: {reason}.</source>
        <translation>Die Chats konnten nicht importiert werden: {reason}.</translation>
    </message>
    <message>
        <source>The chats were written by a newer version of Eyrie. They can be read here, but nothing new is kept. Update Eyrie, or choose another data folder with --data-dir.</source>
        <translation>Die Chats wurden von einer neueren Version von Eyrie geschrieben. Sie lassen sich hier lesen, aber Neues wird nicht aufbewahrt. Aktualisieren Sie Eyrie, oder wählen Sie mit --data-dir einen anderen Datenordner.</translation>
    </message>
    <message>
        <source>The chats' database cannot be written ({error}): the chats can be read, but nothing new is kept. See that {file} and its folder can be written, or choose another data folder with --data-dir.</source>
        <translation>Die Datenbank der Chats kann nicht beschrieben werden ({error}): Die Chats lassen sich lesen, aber Neues wird nicht aufbewahrt. Sorgen Sie dafür, dass {file} und der Ordner beschreibbar sind, oder wählen Sie mit --data-dir einen anderen Datenordner.</translation>
    </message>
    <message>
        <source>The chats' database is damaged ({error}), so what is written now is not saved. Copy what you need and start Eyrie again: it repairs the database.</source>
        <translation>Die Datenbank der Chats ist beschädigt ({error}), deshalb wird nicht gespeichert, was jetzt geschrieben wird. Kopieren Sie, was Sie brauchen, und starten Sie Eyrie neu: Es repariert die Datenbank.</translation>
    </message>
    <message>
        <source>The chats' database was damaged. {saved} The damaged file is kept as {file} in the data folder; if chats are missing, keep it for a repair.</source>
        <translation>Die Datenbank der Chats war beschädigt. {saved} Die beschädigte Datei liegt als {file} im Datenordner; falls Chats fehlen, bewahren Sie sie für eine Reparatur auf.</translation>
    </message>
    <message>
        <source>The export was cancelled; nothing was written.</source>
        <translation>Der Export wurde abgebrochen; nichts wurde geschrieben.</translation>
    </message>
    <message>
        <source>The import was cancelled; no chat was added.</source>
        <translation>Der Import wurde abgebrochen; kein Chat wurde hinzugefügt.</translation>
    </message>
    <message>
        <source>The messages of a chat in this file do not make a tree.</source>
        <translation>Die Nachrichten eines Chats in dieser Datei bilden keinen Baum.</translation>
    </message>
    <message>
        <source>Today</source>
        <translation>Heute</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>Rückgängig</translation>
    </message>
    <message>
        <source>Yesterday</source>
        <translation>Gestern</translation>
    </message>
    <message>
        <source>You</source>
        <translation>Sie</translation>
    </message>
    <message>
        <source>You are editing an earlier prompt. What followed it stays as another version.</source>
        <translation>Sie bearbeiten einen früheren Prompt. Was darauf folgte, bleibt als andere Version erhalten.</translation>
    </message>
    <message>
        <source>a reply is being written</source>
        <translation>eine Antwort wird geschrieben</translation>
    </message>
    <message>
        <source>it has no messages yet</source>
        <translation>er hat noch keine Nachrichten</translation>
    </message>
    <message>
        <source>the chats cannot be saved now</source>
        <translation>die Chats können gerade nicht gespeichert werden</translation>
    </message>
    <message>
        <source>they were written by a newer version of Eyrie, which keeps them differently. Update Eyrie, or choose another data folder with --data-dir</source>
        <translation>Sie wurden von einer neueren Version von Eyrie geschrieben, die sie anders aufbewahrt. Aktualisieren Sie Eyrie, oder wählen Sie mit --data-dir einen anderen Datenordner</translation>
    </message>
    <message numerus="yes">
        <source>{count} chats exported to {path}</source>
        <translation>
            <numerusform>{count} Chat nach {path} exportiert</numerusform>
            <numerusform>{count} Chats nach {path} exportiert</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} chats imported</source>
        <translation>
            <numerusform>{count} Chat importiert</numerusform>
            <numerusform>{count} Chats importiert</numerusform>
        </translation>
    </message>
    <message>
        <source>{count} found</source>
        <translation>{count} gefunden</translation>
    </message>
    <message>
        <source>{file} does not hold a list of chats.</source>
        <translation>{file} enthält keine Liste von Chats.</translation>
    </message>
    <message>
        <source>{file} does not hold chats of Eyrie.</source>
        <translation>{file} enthält keine Chats von Eyrie.</translation>
    </message>
    <message>
        <source>{file} is not a JSON file of chats ({error}).</source>
        <translation>{file} ist keine JSON-Datei mit Chats ({error}).</translation>
    </message>
    <message>
        <source>{file} was written by a newer version of Eyrie. Update Eyrie to read it.</source>
        <translation>{file} wurde von einer neueren Version von Eyrie geschrieben. Aktualisieren Sie Eyrie, um sie zu lesen.</translation>
    </message>
    <message>
        <source>“{chat}” cannot be read ({error}). Start Eyrie again to have it checked.</source>
        <translation>„{chat}“ kann nicht gelesen werden ({error}). Starten Sie Eyrie neu, um es prüfen zu lassen.</translation>
    </message>
    <message>
        <source>“{chat}” deleted</source>
        <translation>„{chat}“ gelöscht</translation>
    </message>
    <message>
        <source>“{field}” of a chat or message in this file is not what it should be.</source>
        <translation>„{field}“ eines Chats oder einer Nachricht in dieser Datei ist nicht, was es sein sollte.</translation>
    </message>
</context>
<context>
    <name>Commands</name>
    <message>
        <source>Chat</source>
        <translation>Chat</translation>
    </message>
    <message>
        <source>Commands and chats</source>
        <translation>Befehle und Chats</translation>
    </message>
    <message>
        <source>Find a command</source>
        <translation>Befehl suchen</translation>
    </message>
    <message>
        <source>Type a command or a chat</source>
        <translation>Befehl oder Chat eingeben</translation>
    </message>
    <message>
        <source>Type a command or the title of a chat</source>
        <translation>Befehl oder Titel eines Chats eingeben</translation>
    </message>
</context>
<context>
    <name>Compare</name>
    <message numerus="yes">
        <source>%n heads are on this computer.</source>
        <translation>
            <numerusform>%n Head ist auf diesem Computer.</numerusform>
            <numerusform>%n Heads sind auf diesem Computer.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more can be downloaded in Models.</source>
        <translation>
            <numerusform>%n weiterer lässt sich unter Modelle herunterladen.</numerusform>
            <numerusform>%n weitere lassen sich unter Modelle herunterladen.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more lines were left out.</source>
        <translation>
            <numerusform>%n weitere Zeile wurde weggelassen.</numerusform>
            <numerusform>%n weitere Zeilen wurden weggelassen.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n of {count} texts differ</source>
        <translation>
            <numerusform>%n von {count} Texten weicht ab</numerusform>
            <numerusform>%n von {count} Texten weichen ab</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n prompts</source>
        <translation>
            <numerusform>%n Prompt</numerusform>
            <numerusform>%n Prompts</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n prompts from {file}.</source>
        <translation>
            <numerusform>%n Prompt aus {file}.</numerusform>
            <numerusform>%n Prompts aus {file}.</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n repeats</source>
        <translation>
            <numerusform>%n Wiederholung</numerusform>
            <numerusform>%n Wiederholungen</numerusform>
        </translation>
    </message>
    <message>
        <source>&amp;Copy the picture</source>
        <translation>Bild &amp;kopieren</translation>
    </message>
    <message>
        <source>&amp;New comparison</source>
        <translation>&amp;Neuer Vergleich</translation>
    </message>
    <message>
        <source>&amp;Save the picture…</source>
        <translation>Bild &amp;speichern…</translation>
    </message>
    <message>
        <source>&amp;Start</source>
        <translation>&amp;Starten</translation>
    </message>
    <message numerus="yes">
        <source>, %n of them by ties within rounding</source>
        <translation>
            <numerusform>, davon %n durch Gleichstand innerhalb der Rundung</numerusform>
            <numerusform>, davon %n durch Gleichstände innerhalb der Rundung</numerusform>
        </translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time</source>
        <translation>0 nimmt jedes Mal das wahrscheinlichste Token</translation>
    </message>
    <message>
        <source>A file</source>
        <translation>Eine Datei</translation>
    </message>
    <message>
        <source>A is faster: its speed over B's</source>
        <translation>A ist schneller: sein Tempo geteilt durch das von B</translation>
    </message>
    <message>
        <source>A is slower: its speed over B's</source>
        <translation>A ist langsamer: sein Tempo geteilt durch das von B</translation>
    </message>
    <message>
        <source>A over B</source>
        <translation>A geteilt durch B</translation>
    </message>
    <message>
        <source>A penalty forbids one of the two tokens there: a real difference.</source>
        <translation>Eine Penalty verbietet dort eines der beiden Token: ein echter Unterschied.</translation>
    </message>
    <message>
        <source>A real difference: {side}'s token is ahead, the two lie {apart}; rounding accounts for {noise}.</source>
        <translation>Ein echter Unterschied: Das Token von {side} liegt vorn, die beiden liegen {apart}; Rundung erklärt {noise}.</translation>
    </message>
    <message>
        <source>A reply broke off.</source>
        <translation>Eine Antwort brach ab.</translation>
    </message>
    <message numerus="yes">
        <source>A side needs another head: the model is loaded again %n times.</source>
        <translation>
            <numerusform>Eine Seite braucht einen anderen Head: Das Modell wird %n-mal neu geladen.</numerusform>
            <numerusform>Eine Seite braucht einen anderen Head: Das Modell wird %n-mal neu geladen.</numerusform>
        </translation>
    </message>
    <message>
        <source>A tie within rounding: the two lie {apart}, and rounding accounts for {noise} on this machine.</source>
        <translation>Gleichstand innerhalb der Rundung: Die beiden liegen {apart}, und Rundung erklärt auf diesem Rechner {noise}.</translation>
    </message>
    <message>
        <source>A tie: the target's logits of the two are equal.</source>
        <translation>Gleichstand: Die Logits des Zielmodells für beide sind gleich.</translation>
    </message>
    <message>
        <source>A {a}, B {b} tokens per second</source>
        <translation>A {a}, B {b} Token pro Sekunde</translation>
    </message>
    <message>
        <source>A, tokens/s</source>
        <translation>A, Token/s</translation>
    </message>
    <message>
        <source>A, τ</source>
        <translation>A, τ</translation>
    </message>
    <message>
        <source>About the same: A's speed over B's</source>
        <translation>Etwa gleich: Tempo von A geteilt durch das von B</translation>
    </message>
    <message>
        <source>After “…{text}”</source>
        <translation>Nach „…{text}“</translation>
    </message>
    <message numerus="yes">
        <source>All %n prompts of this chat</source>
        <translation>
            <numerusform>Der %n Prompt dieses Chats</numerusform>
            <numerusform>Alle %n Prompts dieses Chats</numerusform>
        </translation>
    </message>
    <message>
        <source>All files (*)</source>
        <translation>Alle Dateien (*)</translation>
    </message>
    <message>
        <source>All prompts of this chat</source>
        <translation>Alle Prompts dieses Chats</translation>
    </message>
    <message>
        <source>Another folder…</source>
        <translation>Anderer Ordner…</translation>
    </message>
    <message>
        <source>As loaded (none)</source>
        <translation>Wie geladen (keiner)</translation>
    </message>
    <message>
        <source>As loaded ({head})</source>
        <translation>Wie geladen ({head})</translation>
    </message>
    <message>
        <source>At the very beginning</source>
        <translation>Ganz am Anfang</translation>
    </message>
    <message>
        <source>Automatic ({method})</source>
        <translation>Automatisch ({method})</translation>
    </message>
    <message>
        <source>B, tokens/s</source>
        <translation>B, Token/s</translation>
    </message>
    <message>
        <source>B, τ</source>
        <translation>B, τ</translation>
    </message>
    <message>
        <source>Both sides answer the same prompts, one reply at a time. Then you see how much faster one is and whether the texts are the same.</source>
        <translation>Beide Seiten beantworten dieselben Prompts, eine Antwort nach der anderen. Dann sehen Sie, wie viel schneller eine ist und ob die Texte dieselben sind.</translation>
    </message>
    <message>
        <source>Both sides are the same: this shows how much a repeat varies.</source>
        <translation>Beide Seiten sind gleich: Das zeigt, wie sehr eine Wiederholung schwankt.</translation>
    </message>
    <message>
        <source>Broke off</source>
        <translation>Abgebrochen</translation>
    </message>
    <message>
        <source>Choose a file with prompts.</source>
        <translation>Wählen Sie eine Datei mit Prompts.</translation>
    </message>
    <message>
        <source>Choose a file…</source>
        <translation>Datei wählen…</translation>
    </message>
    <message>
        <source>Choose another head for this side.</source>
        <translation>Wählen Sie für diese Seite einen anderen Head.</translation>
    </message>
    <message>
        <source>Choose another method or head for it.</source>
        <translation>Wählen Sie für sie ein anderes Verfahren oder einen anderen Head.</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>Compare again.</source>
        <translation>Vergleichen Sie erneut.</translation>
    </message>
    <message>
        <source>Compare two settings</source>
        <translation>Zwei Einstellungen vergleichen</translation>
    </message>
    <message>
        <source>Comparisons kept with this chat</source>
        <translation>Vergleiche, die bei diesem Chat liegen</translation>
    </message>
    <message>
        <source>Copy as &amp;text</source>
        <translation>Als &amp;Text kopieren</translation>
    </message>
    <message>
        <source>Decode speed; the time to read the prompt is left out.</source>
        <translation>Dekodiergeschwindigkeit, ohne das Lesen des Prompts.</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Löschen</translation>
    </message>
    <message>
        <source>Delete the chosen comparison</source>
        <translation>Gewählten Vergleich löschen</translation>
    </message>
    <message>
        <source>EAGLE</source>
        <translation>EAGLE</translation>
    </message>
    <message>
        <source>Eyrie compared two settings</source>
        <translation>Eyrie hat zwei Einstellungen verglichen</translation>
    </message>
    <message>
        <source>Finished</source>
        <translation>Fertig</translation>
    </message>
    <message>
        <source>Finished, context full</source>
        <translation>Fertig, Kontext voll</translation>
    </message>
    <message>
        <source>Finished, length limit reached</source>
        <translation>Fertig, Längengrenze erreicht</translation>
    </message>
    <message>
        <source>First difference at token {number}</source>
        <translation>Erster Unterschied bei Token {number}</translation>
    </message>
    <message>
        <source>Folder of a head</source>
        <translation>Ordner eines Heads</translation>
    </message>
    <message>
        <source>For both sides</source>
        <translation>Für beide Seiten</translation>
    </message>
    <message>
        <source>From one repeat: more of them would tell how exact it is.</source>
        <translation>Aus einer Wiederholung: Mehr davon würden zeigen, wie genau es ist.</translation>
    </message>
    <message>
        <source>Head</source>
        <translation>Head</translation>
    </message>
    <message numerus="yes">
        <source>Identical: all %n tokens are the same</source>
        <translation>
            <numerusform>Identisch: Das eine Token ist dasselbe</numerusform>
            <numerusform>Identisch: Alle %n Token sind dieselben</numerusform>
        </translation>
    </message>
    <message>
        <source>Identical: the texts of all {count} prompts</source>
        <translation>Identisch: die Texte aller {count} Prompts</translation>
    </message>
    <message>
        <source>It was stopped: this is what was complete by then.</source>
        <translation>Der Vergleich wurde gestoppt: Dies war bis dahin vollständig.</translation>
    </message>
    <message>
        <source>JSON lines with “turns” (or “prompt”, “text”), or a text with one prompt a line</source>
        <translation>JSON-Zeilen mit “turns” (oder “prompt”, “text”) oder ein Text mit einem Prompt je Zeile</translation>
    </message>
    <message>
        <source>Kept with this chat</source>
        <translation>Liegt bei diesem Chat</translation>
    </message>
    <message>
        <source>Length of the reply, end token included.</source>
        <translation>Länge der Antwort, das Endtoken eingeschlossen.</translation>
    </message>
    <message>
        <source>Line {number} has no “turns” with a text.</source>
        <translation>Zeile {number} hat kein “turns” mit einem Text.</translation>
    </message>
    <message>
        <source>Line {number} is no JSON.</source>
        <translation>Zeile {number} ist kein JSON.</translation>
    </message>
    <message>
        <source>Lists of prompts (*.jsonl *.json *.ndjson *.txt *.md)</source>
        <translation>Listen von Prompts (*.jsonl *.json *.ndjson *.txt *.md)</translation>
    </message>
    <message>
        <source>Load a model first, or choose a head's folder.</source>
        <translation>Laden Sie zuerst ein Modell, oder wählen Sie den Ordner eines Heads.</translation>
    </message>
    <message>
        <source>Load a model, then compare again.</source>
        <translation>Laden Sie ein Modell, und vergleichen Sie dann erneut.</translation>
    </message>
    <message>
        <source>Loading the head of this side…</source>
        <translation>Der Head dieser Seite wird geladen…</translation>
    </message>
    <message>
        <source>Longest reply (tokens)</source>
        <translation>Längste Antwort (Token)</translation>
    </message>
    <message>
        <source>Look for other heads on this computer…</source>
        <translation>Andere Heads auf diesem Computer suchen…</translation>
    </message>
    <message>
        <source>Looking at the logits where the texts part…</source>
        <translation>Die Logits, wo die Texte sich trennen, werden angesehen…</translation>
    </message>
    <message>
        <source>Looking for heads on this computer…</source>
        <translation>Heads auf diesem Computer werden gesucht…</translation>
    </message>
    <message>
        <source>Median of {count} repeats, which lie between {low} and {high}.</source>
        <translation>Median aus {count} Wiederholungen, die zwischen {low} und {high} liegen.</translation>
    </message>
    <message>
        <source>Method</source>
        <translation>Verfahren</translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation>Es ist kein Modell geladen.</translation>
    </message>
    <message>
        <source>No model is loaded. Load one to compare.</source>
        <translation>Es ist kein Modell geladen. Laden Sie eines, um zu vergleichen.</translation>
    </message>
    <message>
        <source>No other head of this model is on this computer.</source>
        <translation>Auf diesem Computer ist kein anderer Head dieses Modells.</translation>
    </message>
    <message>
        <source>No pair of replies has speeds to compare</source>
        <translation>Kein Antwortpaar hat vergleichbare Geschwindigkeiten</translation>
    </message>
    <message>
        <source>Not compared</source>
        <translation>Nicht verglichen</translation>
    </message>
    <message>
        <source>Not run</source>
        <translation>Nicht gelaufen</translation>
    </message>
    <message>
        <source>Nothing was compared yet</source>
        <translation>Noch wurde nichts verglichen</translation>
    </message>
    <message>
        <source>One token for each pass of the target: what speed is measured against.</source>
        <translation>Ein Token je Durchlauf des Zielmodells: woran Tempo gemessen wird.</translation>
    </message>
    <message>
        <source>Only the first {most} of its {count} prompts are used.</source>
        <translation>Nur die ersten {most} der {count} Prompts werden verwendet.</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Öffnen</translation>
    </message>
    <message>
        <source>Open the chosen comparison</source>
        <translation>Gewählten Vergleich öffnen</translation>
    </message>
    <message>
        <source>Over {count} prompts, from {low} to {high} by prompt.</source>
        <translation>Über {count} Prompts, je Prompt von {low} bis {high}.</translation>
    </message>
    <message>
        <source>Pause drafting while it loses, as in chats</source>
        <translation>Entwerfen pausieren, solange es bremst, wie in Chats</translation>
    </message>
    <message>
        <source>Plain decoding</source>
        <translation>Einfache Dekodierung</translation>
    </message>
    <message>
        <source>Plain decoding (EAGLE off)</source>
        <translation>Einfache Dekodierung (EAGLE aus)</translation>
    </message>
    <message>
        <source>Progress of the comparison</source>
        <translation>Fortschritt des Vergleichs</translation>
    </message>
    <message>
        <source>Prompt</source>
        <translation>Prompt</translation>
    </message>
    <message>
        <source>Prompt {number} of {count}: {text}</source>
        <translation>Prompt {number} von {count}: {text}</translation>
    </message>
    <message>
        <source>Prompt {number}: {verdict}</source>
        <translation>Prompt {number}: {verdict}</translation>
    </message>
    <message>
        <source>Prompt: {text}</source>
        <translation>Prompt: {text}</translation>
    </message>
    <message>
        <source>Prompts</source>
        <translation>Prompts</translation>
    </message>
    <message>
        <source>Prompts, one a line</source>
        <translation>Prompts, einer je Zeile</translation>
    </message>
    <message>
        <source>Reading the prompt…</source>
        <translation>Der Prompt wird gelesen…</translation>
    </message>
    <message>
        <source>Repeats</source>
        <translation>Wiederholungen</translation>
    </message>
    <message>
        <source>Reply {number} of {total}: side {side}</source>
        <translation>Antwort {number} von {total}: Seite {side}</translation>
    </message>
    <message>
        <source>Reply: {side}</source>
        <translation>Antwort: {side}</translation>
    </message>
    <message>
        <source>Restart the engine, then compare again.</source>
        <translation>Starten Sie die Engine neu, und vergleichen Sie dann erneut.</translation>
    </message>
    <message>
        <source>Result of the comparison</source>
        <translation>Ergebnis des Vergleichs</translation>
    </message>
    <message>
        <source>Results by prompt</source>
        <translation>Ergebnisse nach Prompt</translation>
    </message>
    <message>
        <source>Run &amp;again</source>
        <translation>&amp;Erneut ausführen</translation>
    </message>
    <message>
        <source>S&amp;hare</source>
        <translation>&amp;Teilen</translation>
    </message>
    <message>
        <source>S&amp;top</source>
        <translation>Sto&amp;ppen</translation>
    </message>
    <message>
        <source>Save the picture</source>
        <translation>Bild speichern</translation>
    </message>
    <message>
        <source>Saved as {path}</source>
        <translation>Gespeichert als {path}</translation>
    </message>
    <message>
        <source>Scroll the comparison</source>
        <translation>Vergleich rollen</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Seed</translation>
    </message>
    <message>
        <source>Side {letter}</source>
        <translation>Seite {letter}</translation>
    </message>
    <message>
        <source>Some replies are short: longer ones give a steadier figure.</source>
        <translation>Einige Antworten sind kurz: Längere ergeben eine verlässlichere Zahl.</translation>
    </message>
    <message>
        <source>Some replies differ in length. Speed changes with length, so the factor is not exact.</source>
        <translation>Einige Antworten sind verschieden lang. Das Tempo ändert sich mit der Länge, daher ist der Faktor nicht genau.</translation>
    </message>
    <message>
        <source>Stop the comparison</source>
        <translation>Vergleich stoppen</translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation>Gestoppt</translation>
    </message>
    <message>
        <source>Stopped before a reply was complete. Nothing was compared.</source>
        <translation>Gestoppt, bevor eine Antwort vollständig war. Es wurde nichts verglichen.</translation>
    </message>
    <message>
        <source>Stopping after what the engine does now…</source>
        <translation>Stoppt nach dem, was die Engine gerade tut…</translation>
    </message>
    <message>
        <source>Swap A and B</source>
        <translation>A und B tauschen</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>Temperatur</translation>
    </message>
    <message>
        <source>Texts</source>
        <translation>Texte</translation>
    </message>
    <message>
        <source>The engine is not running.</source>
        <translation>Die Engine läuft nicht.</translation>
    </message>
    <message>
        <source>The figures are in the clipboard.</source>
        <translation>Die Zahlen sind in der Zwischenablage.</translation>
    </message>
    <message>
        <source>The head in {folder} cannot be used.</source>
        <translation>Der Head in {folder} kann nicht verwendet werden.</translation>
    </message>
    <message>
        <source>The margin is not known: {reason}</source>
        <translation>Der Abstand ist nicht bekannt: {reason}</translation>
    </message>
    <message>
        <source>The model was unloaded or changed meanwhile.</source>
        <translation>Das Modell wurde inzwischen entladen oder gewechselt.</translation>
    </message>
    <message>
        <source>The picture could not be saved ({reason}). Choose another folder.</source>
        <translation>Das Bild konnte nicht gespeichert werden ({reason}). Wählen Sie einen anderen Ordner.</translation>
    </message>
    <message>
        <source>The picture is in the clipboard.</source>
        <translation>Das Bild ist in der Zwischenablage.</translation>
    </message>
    <message>
        <source>The same as far as both go; one reply did not reach its end</source>
        <translation>Gleich, so weit beide reichen; eine Antwort kam nicht bis ans Ende</translation>
    </message>
    <message>
        <source>The sides take turns as A B, B A, …; more repeats tell the spread</source>
        <translation>Die Seiten wechseln sich ab: A B, B A, …; mehr Wiederholungen zeigen die Streuung</translation>
    </message>
    <message>
        <source>The target itself would write {token}.</source>
        <translation>Das Zielmodell selbst würde {token} schreiben.</translation>
    </message>
    <message>
        <source>The temperature is above 0: both sides draw from the target's own distribution with the same seed. They agree where each guess is checked against the drawn token, and differ by design where a method draws its guesses.</source>
        <translation>Die Temperatur ist über 0: Beide Seiten ziehen mit demselben Seed aus der Verteilung des Zielmodells. Sie stimmen überein, wo jede Vermutung am gezogenen Token geprüft wird, und weichen naturgemäß ab, wo ein Verfahren seine Vermutungen auslost.</translation>
    </message>
    <message>
        <source>The two lie {apart}. Tokens are drawn here, so a difference says nothing against either side.</source>
        <translation>Die beiden liegen {apart}. Token werden hier gezogen, daher spricht ein Unterschied gegen keine Seite.</translation>
    </message>
    <message>
        <source>There is no prompt to compare on.</source>
        <translation>Es gibt keinen Prompt zum Vergleichen.</translation>
    </message>
    <message>
        <source>These, one a line</source>
        <translation>Diese, einer je Zeile</translation>
    </message>
    <message>
        <source>They do not agree on which is faster.</source>
        <translation>Sie sind sich nicht einig, welche schneller ist.</translation>
    </message>
    <message>
        <source>This comparison cannot be read. Delete it, and compare again.</source>
        <translation>Dieser Vergleich kann nicht gelesen werden. Löschen Sie ihn, und vergleichen Sie erneut.</translation>
    </message>
    <message>
        <source>This model does not know the method “{method}”.</source>
        <translation>Dieses Modell kennt das Verfahren „{method}“ nicht.</translation>
    </message>
    <message>
        <source>This prompt, with the chat before it</source>
        <translation>Dieser Prompt, mit dem Chat davor</translation>
    </message>
    <message>
        <source>Time from the request to the first token.</source>
        <translation>Zeit von der Anfrage bis zum ersten Token.</translation>
    </message>
    <message>
        <source>Tokens emitted per pass of the target.</source>
        <translation>Ausgegebene Token je Durchlauf des Zielmodells.</translation>
    </message>
    <message>
        <source>Tokens per second of both sides</source>
        <translation>Token pro Sekunde beider Seiten</translation>
    </message>
    <message>
        <source>Undo deleting</source>
        <translation>Löschen rückgängig machen</translation>
    </message>
    <message>
        <source>Waiting for its turn</source>
        <translation>Wartet</translation>
    </message>
    <message>
        <source>Waiting for the engine…</source>
        <translation>Wartet auf die Engine…</translation>
    </message>
    <message>
        <source>What is complete is kept. Load the model again to compare once more.</source>
        <translation>Was vollständig ist, bleibt erhalten. Laden Sie das Modell wieder, um noch einmal zu vergleichen.</translation>
    </message>
    <message>
        <source>Without a setting that changes the distribution this is a fault: please report it.</source>
        <translation>Ohne eine Einstellung, die die Verteilung verändert, ist das ein Fehler: Bitte melden Sie ihn.</translation>
    </message>
    <message>
        <source>Without it a method drafts all the time, also where that is slower</source>
        <translation>Ohne dies entwirft ein Verfahren immer, auch wo das langsamer ist</translation>
    </message>
    <message>
        <source>Write a prompt, or choose where prompts come from.</source>
        <translation>Schreiben Sie einen Prompt, oder wählen Sie, woher Prompts kommen.</translation>
    </message>
    <message>
        <source>Write one, or choose a file.</source>
        <translation>Schreiben Sie einen, oder wählen Sie eine Datei.</translation>
    </message>
    <message>
        <source>Write or paste prompts, one a line</source>
        <translation>Prompts schreiben oder einfügen, einer je Zeile</translation>
    </message>
    <message>
        <source>Writing…</source>
        <translation>Schreibt…</translation>
    </message>
    <message>
        <source>a few seconds left</source>
        <translation>noch einige Sekunden</translation>
    </message>
    <message>
        <source>a part of a character</source>
        <translation>ein Teil eines Zeichens</translation>
    </message>
    <message numerus="yes">
        <source>about %n minutes left</source>
        <translation>
            <numerusform>noch etwa %n Minute</numerusform>
            <numerusform>noch etwa %n Minuten</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>about %n seconds left</source>
        <translation>
            <numerusform>noch etwa %n Sekunde</numerusform>
            <numerusform>noch etwa %n Sekunden</numerusform>
        </translation>
    </message>
    <message>
        <source>any</source>
        <translation>beliebig</translation>
    </message>
    <message>
        <source>at most {count} tokens</source>
        <translation>höchstens {count} Token</translation>
    </message>
    <message>
        <source>differ at {number}</source>
        <translation>verschieden ab {number}</translation>
    </message>
    <message>
        <source>identical</source>
        <translation>identisch</translation>
    </message>
    <message>
        <source>not complete</source>
        <translation>unvollständig</translation>
    </message>
    <message>
        <source>off</source>
        <translation>aus</translation>
    </message>
    <message>
        <source>on</source>
        <translation>ein</translation>
    </message>
    <message>
        <source>one of the replies had ended there.</source>
        <translation>eine der Antworten war dort zu Ende.</translation>
    </message>
    <message>
        <source>prompt {number} of {total}</source>
        <translation>Prompt {number} von {total}</translation>
    </message>
    <message>
        <source>repeat {number} of {total}</source>
        <translation>Wiederholung {number} von {total}</translation>
    </message>
    <message>
        <source>seed {value}</source>
        <translation>Seed {value}</translation>
    </message>
    <message>
        <source>temperature {value}</source>
        <translation>Temperatur {value}</translation>
    </message>
    <message>
        <source>to first token</source>
        <translation>bis zum ersten Token</translation>
    </message>
    <message>
        <source>tokens</source>
        <translation>Token</translation>
    </message>
    <message>
        <source>tokens per step (τ)</source>
        <translation>Token je Schritt (τ)</translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation>Token/s</translation>
    </message>
    <message>
        <source>{a} or {b}</source>
        <translation>{a} oder {b}</translation>
    </message>
    <message>
        <source>{file} cannot be read ({reason}). Choose another file.</source>
        <translation>{file} kann nicht gelesen werden ({reason}). Wählen Sie eine andere Datei.</translation>
    </message>
    <message>
        <source>{file} holds no prompts.{reason} Choose another file.</source>
        <translation>{file} enthält keine Prompts.{reason} Wählen Sie eine andere Datei.</translation>
    </message>
    <message>
        <source>{file} is not a text in UTF-8. Choose another file.</source>
        <translation>{file} ist kein Text in UTF-8. Wählen Sie eine andere Datei.</translation>
    </message>
    <message>
        <source>{file} is too large for a list of prompts. Choose a smaller file.</source>
        <translation>{file} ist zu groß für eine Liste von Prompts. Wählen Sie eine kleinere Datei.</translation>
    </message>
    <message>
        <source>{margin} logits apart</source>
        <translation>{margin} Logits auseinander</translation>
    </message>
    <message>
        <source>{method} – not with what is loaded</source>
        <translation>{method} – nicht mit dem Geladenen</translation>
    </message>
    <message>
        <source>{method}, automatic</source>
        <translation>{method}, automatisch</translation>
    </message>
    <message>
        <source>{method}, head {head}</source>
        <translation>{method}, Head {head}</translation>
    </message>
    <message>
        <source>{sides} may leave the target's own distribution, so this is expected.</source>
        <translation>{sides} darf von der Verteilung des Zielmodells abweichen, das ist also zu erwarten.</translation>
    </message>
    <message>
        <source>{side} cannot be run: {problem}</source>
        <translation>{side} kann nicht laufen: {problem}</translation>
    </message>
    <message>
        <source>{side} changes the distribution: its text need not be the target's.</source>
        <translation>{side} verändert die Verteilung: Der Text muss nicht der des Zielmodells sein.</translation>
    </message>
    <message>
        <source>{side} itself wrote different texts in its repeats.</source>
        <translation>{side} schrieb selbst in den Wiederholungen verschiedene Texte.</translation>
    </message>
    <message>
        <source>{side} never drafted, so this compares plain decoding.</source>
        <translation>{side} hat nie entworfen, verglichen wird also einfache Dekodierung.</translation>
    </message>
    <message>
        <source>{side} paused drafting in {some} of {all} replies.</source>
        <translation>{side} pausierte das Entwerfen in {some} von {all} Antworten.</translation>
    </message>
    <message>
        <source>{side}: head</source>
        <translation>{side}: Head</translation>
    </message>
    <message>
        <source>{side}: method</source>
        <translation>{side}: Verfahren</translation>
    </message>
    <message>
        <source>{side}: the reply had ended</source>
        <translation>{side}: Die Antwort war zu Ende</translation>
    </message>
    <message>
        <source>{side}: {token} (id {id})</source>
        <translation>{side}: {token} (ID {id})</translation>
    </message>
    <message>
        <source>{side}: {token} (id {id}, the target gives it {chance})</source>
        <translation>{side}: {token} (ID {id}, das Zielmodell gibt ihm {chance})</translation>
    </message>
    <message>
        <source>{speed} tokens/s</source>
        <translation>{speed} Token/s</translation>
    </message>
    <message numerus="yes">
        <source>{what}: %n replies.</source>
        <translation>
            <numerusform>{what}: %n Antwort.</numerusform>
            <numerusform>{what}: %n Antworten.</numerusform>
        </translation>
    </message>
    <message>
        <source>{where}, a tie</source>
        <translation>{where}, ein Gleichstand</translation>
    </message>
</context>
<context>
    <name>Composer</name>
    <message>
        <source>A reply is being written in “{chat}”. Esc stops it.</source>
        <translation>In „{chat}“ wird eine Antwort geschrieben. Esc stoppt sie.</translation>
    </message>
    <message>
        <source>A reply is being written. Esc stops it.</source>
        <translation>Eine Antwort wird geschrieben. Esc stoppt sie.</translation>
    </message>
    <message>
        <source>Attach text files</source>
        <translation>Textdateien anhängen</translation>
    </message>
    <message>
        <source>Attach text files (UTF-8, up to {most} kB each); or drop them here</source>
        <translation>Textdateien anhängen (UTF-8, je bis {most} kB); oder hier ablegen</translation>
    </message>
    <message>
        <source>Attached files</source>
        <translation>Angehängte Dateien</translation>
    </message>
    <message>
        <source>Enter sends, Shift+Enter starts a new line</source>
        <translation>Eingabe sendet, Umschalt+Eingabe beginnt eine neue Zeile</translation>
    </message>
    <message>
        <source>Prompt</source>
        <translation>Prompt</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>Senden (Eingabe)</translation>
    </message>
    <message>
        <source>Stop the reply (Esc)</source>
        <translation>Antwort stoppen (Esc)</translation>
    </message>
    <message>
        <source>Take {name} away</source>
        <translation>{name} entfernen</translation>
    </message>
    <message>
        <source>Write a prompt…</source>
        <translation>Prompt schreiben…</translation>
    </message>
    <message numerus="yes">
        <source>{count} bytes</source>
        <translation>
            <numerusform>{count} Byte</numerusform>
            <numerusform>{count} Byte</numerusform>
        </translation>
    </message>
    <message>
        <source>{count} kB</source>
        <translation>{count} kB</translation>
    </message>
    <message>
        <source>“{name}” could not be read: {reason}. Check that you may open it.</source>
        <translation>„{name}“ konnte nicht gelesen werden: {reason}. Prüfen Sie, ob Sie die Datei öffnen dürfen.</translation>
    </message>
    <message>
        <source>“{name}” is empty. Choose a file with text in it.</source>
        <translation>„{name}“ ist leer. Wählen Sie eine Datei mit Text.</translation>
    </message>
    <message>
        <source>“{name}” is not a file. Choose single text files.</source>
        <translation>„{name}“ ist keine Datei. Wählen Sie einzelne Textdateien.</translation>
    </message>
    <message>
        <source>“{name}” is not a text file. Only text can be attached.</source>
        <translation>„{name}“ ist keine Textdatei. Nur Text lässt sich anhängen.</translation>
    </message>
    <message>
        <source>“{name}” is not text in UTF-8. Save it as UTF-8 text and attach that.</source>
        <translation>„{name}“ ist kein Text in UTF-8. Speichern Sie sie als UTF-8-Text und hängen Sie diesen an.</translation>
    </message>
    <message>
        <source>“{name}” is too large ({size} kB; at most {most} kB can be attached). Attach a part of it.</source>
        <translation>„{name}“ ist zu groß ({size} kB; höchstens {most} kB lassen sich anhängen). Hängen Sie einen Teil davon an.</translation>
    </message>
</context>
<context>
    <name>Engine</name>
    <message>
        <source>Loading was cancelled, and nothing is in memory. A prompt loads the model again.</source>
        <translation>Das Laden wurde abgebrochen, und nichts liegt im Speicher. Ein Prompt lädt das Modell wieder.</translation>
    </message>
    <message>
        <source>No model is loaded, so nothing can be sent.</source>
        <translation>Es ist kein Modell geladen, daher kann nichts gesendet werden.</translation>
    </message>
    <message>
        <source>The engine has stopped. Restart it to send.</source>
        <translation>Die Engine wurde beendet. Starten Sie sie neu, um zu senden.</translation>
    </message>
    <message>
        <source>The engine is busy with a comparison.</source>
        <translation>Die Engine ist mit einem Vergleich beschäftigt.</translation>
    </message>
    <message>
        <source>The engine is starting. You can write already.</source>
        <translation>Die Engine startet. Sie können schon schreiben.</translation>
    </message>
    <message>
        <source>The engine stopped unexpectedly.</source>
        <translation>Die Engine wurde unerwartet beendet.</translation>
    </message>
    <message>
        <source>The model is loading. You can write already.</source>
        <translation>Das Modell wird geladen. Sie können schon schreiben.</translation>
    </message>
    <message>
        <source>The model is unloaded and its memory is free. A prompt loads it again.</source>
        <translation>Das Modell ist entladen und sein Speicher frei. Ein Prompt lädt es wieder.</translation>
    </message>
    <message numerus="yes">
        <source>The model was unloaded after %n minutes without use. A prompt loads it again.</source>
        <translation>
            <numerusform>Das Modell wurde nach %n Minute ohne Nutzung entladen. Ein Prompt lädt es wieder.</numerusform>
            <numerusform>Das Modell wurde nach %n Minuten ohne Nutzung entladen. Ein Prompt lädt es wieder.</numerusform>
        </translation>
    </message>
    <message>
        <source>The model was unloaded while this was written.</source>
        <translation>Das Modell wurde entladen, während dies geschrieben wurde.</translation>
    </message>
    <message>
        <source>What was received is kept. Load the model again to go on.</source>
        <translation>Was empfangen wurde, bleibt erhalten. Laden Sie das Modell wieder, um fortzufahren.</translation>
    </message>
    <message>
        <source>What was received is kept. Restart the engine to go on.</source>
        <translation>Was empfangen wurde, bleibt erhalten. Starten Sie die Engine neu, um fortzufahren.</translation>
    </message>
</context>
<context>
    <name>Examples</name>
    <message>
        <source>Ask a fact</source>
        <translation>Nach einer Tatsache fragen</translation>
    </message>
    <message>
        <source>Make a list</source>
        <translation>Eine Liste machen</translation>
    </message>
    <message>
        <source>Name the planets of the solar system in order.</source>
        <translation>Nenne die Planeten des Sonnensystems der Reihe nach.</translation>
    </message>
    <message>
        <source>Replies stream with their draft tree: what the head guessed, and what the target accepted.</source>
        <translation>Antworten entstehen vor Ihren Augen, mit ihrem Entwurfsbaum: was der Head vermutet und was das Zielmodell angenommen hat.</translation>
    </message>
    <message>
        <source>Tell a short story about a fox who finds a lantern in the snow.</source>
        <translation>Erzähle eine kurze Geschichte von einem Fuchs, der im Schnee eine Laterne findet.</translation>
    </message>
    <message>
        <source>Tell a story</source>
        <translation>Eine Geschichte erzählen</translation>
    </message>
    <message>
        <source>Translate</source>
        <translation>Übersetzen</translation>
    </message>
    <message>
        <source>Translate to French: The weather is beautiful today.</source>
        <translation>Übersetze ins Französische: Das Wetter ist heute schön.</translation>
    </message>
    <message>
        <source>What is the capital of Peru?</source>
        <translation>Was ist die Hauptstadt von Peru?</translation>
    </message>
    <message>
        <source>What shall we write?</source>
        <translation>Was schreiben wir?</translation>
    </message>
</context>
<context>
    <name>Hub</name>
    <message>
        <source>(The card goes on; its page has the rest.)</source>
        <translation>(Die Modellkarte geht weiter; der Rest steht auf ihrer Seite.)</translation>
    </message>
    <message>
        <source>A head is loaded together with its model: choose the model.</source>
        <translation>Ein Head wird zusammen mit seinem Modell geladen: Wählen Sie das Modell.</translation>
    </message>
    <message>
        <source>About</source>
        <translation>Über</translation>
    </message>
    <message>
        <source>Access token</source>
        <translation>Zugriffstoken</translation>
    </message>
    <message>
        <source>Account</source>
        <translation>Konto</translation>
    </message>
    <message>
        <source>Account not reached</source>
        <translation>Konto nicht erreicht</translation>
    </message>
    <message>
        <source>Account: {name}.</source>
        <translation>Konto: {name}.</translation>
    </message>
    <message>
        <source>Add a GGUF file…</source>
        <translation>GGUF-Datei hinzufügen…</translation>
    </message>
    <message>
        <source>Add a folder…</source>
        <translation>Ordner hinzufügen…</translation>
    </message>
    <message>
        <source>An entered token goes into the system's keyring, or stays until Eyrie ends where there is none. It is sent to the hub alone.</source>
        <translation>Ein eingegebenes Token kommt in den Schlüsselbund des Systems oder bleibt, wo es keinen gibt, bis Eyrie endet. Es wird nur an den Hub gesendet.</translation>
    </message>
    <message>
        <source>Any family</source>
        <translation>Jede Familie</translation>
    </message>
    <message>
        <source>Any licence</source>
        <translation>Jede Lizenz</translation>
    </message>
    <message>
        <source>Any size</source>
        <translation>Jede Größe</translation>
    </message>
    <message>
        <source>Based on</source>
        <translation>Beruht auf</translation>
    </message>
    <message>
        <source>Cancel and delete</source>
        <translation>Abbrechen und löschen</translation>
    </message>
    <message>
        <source>Cancel the download</source>
        <translation>Download abbrechen</translation>
    </message>
    <message>
        <source>Cancel the download of {name}?</source>
        <translation>Download von {name} abbrechen?</translation>
    </message>
    <message>
        <source>Cancel, keep what arrived</source>
        <translation>Abbrechen, Angekommenes behalten</translation>
    </message>
    <message>
        <source>Cancel…</source>
        <translation>Abbrechen…</translation>
    </message>
    <message>
        <source>Choose a GGUF file</source>
        <translation>GGUF-Datei wählen</translation>
    </message>
    <message>
        <source>Choose a model at the left.</source>
        <translation>Wählen Sie links ein Modell.</translation>
    </message>
    <message>
        <source>Choose the folder of a model or a head</source>
        <translation>Ordner eines Modells oder Heads wählen</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>Context</source>
        <translation>Kontext</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>Löschen</translation>
    </message>
    <message>
        <source>Delete a model</source>
        <translation>Modell löschen</translation>
    </message>
    <message>
        <source>Delete the chosen model from the hub cache</source>
        <translation>Gewähltes Modell aus dem Hub-Cache löschen</translation>
    </message>
    <message>
        <source>Delete {name} from this computer?</source>
        <translation>{name} von diesem Computer löschen?</translation>
    </message>
    <message>
        <source>Deleted with it: {names}.</source>
        <translation>Mit gelöscht wird: {names}.</translation>
    </message>
    <message>
        <source>Delete…</source>
        <translation>Löschen…</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>Ausblenden</translation>
    </message>
    <message>
        <source>Download</source>
        <translation>Herunterladen</translation>
    </message>
    <message>
        <source>Download of {name}</source>
        <translation>Download von {name}</translation>
    </message>
    <message>
        <source>Download {size}</source>
        <translation>{size} herunterladen</translation>
    </message>
    <message numerus="yes">
        <source>Downloading %n models</source>
        <translation>
            <numerusform>%n Modell wird heruntergeladen</numerusform>
            <numerusform>%n Modelle werden heruntergeladen</numerusform>
        </translation>
    </message>
    <message>
        <source>Downloads</source>
        <translation>Downloads</translation>
    </message>
    <message>
        <source>Draft with it</source>
        <translation>Damit entwerfen</translation>
    </message>
    <message>
        <source>EAGLE head</source>
        <translation>EAGLE-Head</translation>
    </message>
    <message>
        <source>EAGLE head, looking for more…</source>
        <translation>EAGLE-Head, weitere werden gesucht…</translation>
    </message>
    <message>
        <source>EAGLE heads</source>
        <translation>EAGLE-Heads</translation>
    </message>
    <message>
        <source>Enter a token…</source>
        <translation>Token eingeben…</translation>
    </message>
    <message>
        <source>Expected speed-up</source>
        <translation>Erwartete Beschleunigung</translation>
    </message>
    <message>
        <source>Family</source>
        <translation>Familie</translation>
    </message>
    <message>
        <source>Files</source>
        <translation>Dateien</translation>
    </message>
    <message>
        <source>Files of the same model in different precisions; one is downloaded</source>
        <translation>Dateien desselben Modells in verschiedener Genauigkeit; eine wird heruntergeladen</translation>
    </message>
    <message>
        <source>Files that are downloaded</source>
        <translation>Dateien, die heruntergeladen werden</translation>
    </message>
    <message>
        <source>Fits this machine</source>
        <translation>Passt auf diesen Rechner</translation>
    </message>
    <message>
        <source>Forget it</source>
        <translation>Vergessen</translation>
    </message>
    <message>
        <source>Go on downloading</source>
        <translation>Weiter herunterladen</translation>
    </message>
    <message>
        <source>Graphics card</source>
        <translation>Grafikkarte</translation>
    </message>
    <message>
        <source>Has an EAGLE head</source>
        <translation>Hat einen EAGLE-Head</translation>
    </message>
    <message>
        <source>Head</source>
        <translation>Head</translation>
    </message>
    <message>
        <source>Heads for this model</source>
        <translation>Heads für dieses Modell</translation>
    </message>
    <message>
        <source>Hub account</source>
        <translation>Hub-Konto</translation>
    </message>
    <message>
        <source>It is being downloaded.</source>
        <translation>Wird gerade heruntergeladen.</translation>
    </message>
    <message>
        <source>It is loaded now: it goes on until it is unloaded, and then it is gone.</source>
        <translation>Es ist gerade geladen: Es läuft weiter, bis es entladen wird, und ist dann weg.</translation>
    </message>
    <message>
        <source>Its download is paused.</source>
        <translation>Der Download ist angehalten.</translation>
    </message>
    <message>
        <source>Its download stopped; the reason is below.</source>
        <translation>Der Download wurde unterbrochen; der Grund steht unten.</translation>
    </message>
    <message>
        <source>Keep it</source>
        <translation>Behalten</translation>
    </message>
    <message>
        <source>Languages</source>
        <translation>Sprachen</translation>
    </message>
    <message>
        <source>Last updated</source>
        <translation>Zuletzt aktualisiert</translation>
    </message>
    <message>
        <source>Licence</source>
        <translation>Lizenz</translation>
    </message>
    <message>
        <source>Lies in</source>
        <translation>Liegt in</translation>
    </message>
    <message>
        <source>Load</source>
        <translation>Laden</translation>
    </message>
    <message>
        <source>Looking at it…</source>
        <translation>Wird angesehen…</translation>
    </message>
    <message>
        <source>Looking at this machine…</source>
        <translation>Dieser Rechner wird geprüft…</translation>
    </message>
    <message numerus="yes">
        <source>Looking for heads of %n more models…</source>
        <translation>
            <numerusform>Heads für %n weiteres Modell werden gesucht…</numerusform>
            <numerusform>Heads für %n weitere Modelle werden gesucht…</numerusform>
        </translation>
    </message>
    <message>
        <source>Looking…</source>
        <translation>Wird gesucht…</translation>
    </message>
    <message>
        <source>Made for</source>
        <translation>Gemacht für</translation>
    </message>
    <message>
        <source>Make a token…</source>
        <translation>Token erstellen…</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>Speicher</translation>
    </message>
    <message>
        <source>Model card</source>
        <translation>Modellkarte</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>Modelle</translation>
    </message>
    <message>
        <source>Models on this computer</source>
        <translation>Modelle auf diesem Computer</translation>
    </message>
    <message>
        <source>More pairs</source>
        <translation>Weitere Paare</translation>
    </message>
    <message>
        <source>Most downloaded</source>
        <translation>Meiste Downloads</translation>
    </message>
    <message>
        <source>Most liked</source>
        <translation>Beliebteste</translation>
    </message>
    <message>
        <source>Name, or the address of a model's page</source>
        <translation>Name oder Adresse der Seite eines Modells</translation>
    </message>
    <message>
        <source>No NVIDIA GPU was found, so models run on the processor: {free} of {total} memory are free.</source>
        <translation>Es wurde keine NVIDIA-GPU gefunden, daher laufen Modelle auf dem Prozessor: {free} von {total} Speicher sind frei.</translation>
    </message>
    <message>
        <source>No head</source>
        <translation>Kein Head</translation>
    </message>
    <message>
        <source>No model is here yet. Download one, or add a folder or a GGUF file that you have already.</source>
        <translation>Hier ist noch kein Modell. Laden Sie eines herunter, oder fügen Sie einen Ordner oder eine GGUF-Datei hinzu, die Sie schon haben.</translation>
    </message>
    <message>
        <source>No token is set. Free models need none; gated ones need the token of an account that may read them.</source>
        <translation>Es ist kein Token gesetzt. Freie Modelle brauchen keines; zugangsbeschränkte brauchen das Token eines Kontos, das sie lesen darf.</translation>
    </message>
    <message>
        <source>None of the first {count} hits passes the filters. Show more, or filter less.</source>
        <translation>Keiner der ersten {count} Treffer passt zu den Filtern. Zeigen Sie mehr, oder filtern Sie weniger.</translation>
    </message>
    <message>
        <source>Not known yet whether the head fits.</source>
        <translation>Noch ist nicht bekannt, ob der Head passt.</translation>
    </message>
    <message>
        <source>Not logged in</source>
        <translation>Nicht angemeldet</translation>
    </message>
    <message>
        <source>Notes</source>
        <translation>Hinweise</translation>
    </message>
    <message>
        <source>Nothing was found. Try fewer words, or fewer filters.</source>
        <translation>Nichts gefunden. Versuchen Sie es mit weniger Wörtern oder weniger Filtern.</translation>
    </message>
    <message>
        <source>Offline</source>
        <translation>Offline</translation>
    </message>
    <message>
        <source>On this computer</source>
        <translation>Auf diesem Computer</translation>
    </message>
    <message>
        <source>Only models for which the catalogue or the hub has a head that fits</source>
        <translation>Nur Modelle, für die der Katalog oder der Hub einen passenden Head hat</translation>
    </message>
    <message>
        <source>Open its page</source>
        <translation>Seite öffnen</translation>
    </message>
    <message>
        <source>Open the page</source>
        <translation>Seite öffnen</translation>
    </message>
    <message>
        <source>Pause</source>
        <translation>Anhalten</translation>
    </message>
    <message>
        <source>Quantisation</source>
        <translation>Quantisierung</translation>
    </message>
    <message>
        <source>Recommended</source>
        <translation>Empfohlen</translation>
    </message>
    <message>
        <source>Recommended for this machine</source>
        <translation>Für diesen Rechner empfohlen</translation>
    </message>
    <message>
        <source>Recommended pairs</source>
        <translation>Empfohlene Paare</translation>
    </message>
    <message>
        <source>Resume</source>
        <translation>Fortsetzen</translation>
    </message>
    <message>
        <source>Search results</source>
        <translation>Suchergebnisse</translation>
    </message>
    <message>
        <source>Search the hub</source>
        <translation>Hub durchsuchen</translation>
    </message>
    <message>
        <source>Searching…</source>
        <translation>Suche läuft…</translation>
    </message>
    <message>
        <source>Show more</source>
        <translation>Mehr zeigen</translation>
    </message>
    <message>
        <source>Show more search results</source>
        <translation>Mehr Suchergebnisse zeigen</translation>
    </message>
    <message>
        <source>Show the downloads</source>
        <translation>Downloads zeigen</translation>
    </message>
    <message>
        <source>Size</source>
        <translation>Größe</translation>
    </message>
    <message>
        <source>Sort by</source>
        <translation>Sortieren nach</translation>
    </message>
    <message>
        <source>Start it again</source>
        <translation>Neu starten</translation>
    </message>
    <message>
        <source>Take off the list</source>
        <translation>Von der Liste nehmen</translation>
    </message>
    <message>
        <source>The card is being read…</source>
        <translation>Die Modellkarte wird gelesen…</translation>
    </message>
    <message>
        <source>The download of {name} is paused.</source>
        <translation>Der Download von {name} ist angehalten.</translation>
    </message>
    <message>
        <source>The download of {name} stopped. {reason}</source>
        <translation>Der Download von {name} wurde unterbrochen. {reason}</translation>
    </message>
    <message>
        <source>The files stay where they are</source>
        <translation>Die Dateien bleiben, wo sie sind</translation>
    </message>
    <message>
        <source>The head does not fit this model.</source>
        <translation>Der Head passt nicht zu diesem Modell.</translation>
    </message>
    <message>
        <source>The head fits this model.</source>
        <translation>Der Head passt zu diesem Modell.</translation>
    </message>
    <message>
        <source>The head fits, with a caveat.</source>
        <translation>Der Head passt mit einer Einschränkung.</translation>
    </message>
    <message>
        <source>The hub account that gated models are read with</source>
        <translation>Das Hub-Konto, mit dem zugangsbeschränkte Modelle gelesen werden</translation>
    </message>
    <message>
        <source>The token of the variable HF_TOKEN is used.</source>
        <translation>Das Token der Variablen HF_TOKEN wird verwendet.</translation>
    </message>
    <message>
        <source>The token that you entered is used until Eyrie ends. No keyring could keep it.</source>
        <translation>Das eingegebene Token wird verwendet, bis Eyrie endet. Kein Schlüsselbund konnte es aufbewahren.</translation>
    </message>
    <message>
        <source>The token that you entered is used. The system's keyring keeps it.</source>
        <translation>Das eingegebene Token wird verwendet. Der Schlüsselbund des Systems bewahrt es auf.</translation>
    </message>
    <message>
        <source>The token that “hf auth login” stored is used.</source>
        <translation>Das von „hf auth login“ gespeicherte Token wird verwendet.</translation>
    </message>
    <message>
        <source>There is no model card.</source>
        <translation>Es gibt keine Modellkarte.</translation>
    </message>
    <message>
        <source>This frees up to {size}. Other programs that use the hub cache lose it, too.</source>
        <translation>Das gibt bis zu {size} frei. Auch andere Programme, die den Hub-Cache nutzen, verlieren es.</translation>
    </message>
    <message>
        <source>This head does not fit. Choose another one, or none.</source>
        <translation>Dieser Head passt nicht. Wählen Sie einen anderen oder keinen.</translation>
    </message>
    <message>
        <source>Token refused</source>
        <translation>Token abgelehnt</translation>
    </message>
    <message>
        <source>Token set</source>
        <translation>Token gesetzt</translation>
    </message>
    <message>
        <source>Too large for this machine</source>
        <translation>Zu groß für diesen Rechner</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Erneut versuchen</translation>
    </message>
    <message>
        <source>Type to search. With an empty field the most downloaded models are listed.</source>
        <translation>Tippen, um zu suchen. Bei leerem Feld stehen hier die am häufigsten heruntergeladenen Modelle.</translation>
    </message>
    <message>
        <source>Up to {size} B</source>
        <translation>Bis {size} Mrd.</translation>
    </message>
    <message>
        <source>Updated</source>
        <translation>Aktualisiert</translation>
    </message>
    <message>
        <source>Use the chosen model as draft model for the loaded one; both need the same vocabulary</source>
        <translation>Das gewählte Modell als Entwurfsmodell für das geladene verwenden; beide brauchen dasselbe Vokabular</translation>
    </message>
    <message>
        <source>Use this token</source>
        <translation>Dieses Token verwenden</translation>
    </message>
    <message>
        <source>about {size} on disk</source>
        <translation>etwa {size} auf dem Datenträger</translation>
    </message>
    <message>
        <source>asking the hub which files there are…</source>
        <translation>der Hub wird nach den Dateien gefragt…</translation>
    </message>
    <message>
        <source>caveat</source>
        <translation>Einschränkung</translation>
    </message>
    <message>
        <source>checking the checksum</source>
        <translation>Prüfsumme wird geprüft</translation>
    </message>
    <message>
        <source>does not fit</source>
        <translation>passt nicht</translation>
    </message>
    <message numerus="yes">
        <source>drafts {count} tokens</source>
        <translation>
            <numerusform>entwirft {count} Token</numerusform>
            <numerusform>entwirft {count} Token</numerusform>
        </translation>
    </message>
    <message>
        <source>fits</source>
        <translation>passt</translation>
    </message>
    <message>
        <source>hub cache</source>
        <translation>Hub-Cache</translation>
    </message>
    <message>
        <source>in the catalogue</source>
        <translation>im Katalog</translation>
    </message>
    <message>
        <source>its card does not tell</source>
        <translation>die Modellkarte sagt es nicht</translation>
    </message>
    <message>
        <source>licence on its page</source>
        <translation>Lizenz auf der Seite</translation>
    </message>
    <message>
        <source>made for {model}</source>
        <translation>gemacht für {model}</translation>
    </message>
    <message>
        <source>more than 24 GB</source>
        <translation>mehr als 24 GB</translation>
    </message>
    <message>
        <source>no room on the disk</source>
        <translation>kein Platz auf dem Datenträger</translation>
    </message>
    <message>
        <source>no speed-up published</source>
        <translation>keine Beschleunigung veröffentlicht</translation>
    </message>
    <message>
        <source>none was published</source>
        <translation>keine veröffentlicht</translation>
    </message>
    <message>
        <source>not checked</source>
        <translation>nicht geprüft</translation>
    </message>
    <message>
        <source>nothing arrives at the moment</source>
        <translation>zurzeit kommt nichts an</translation>
    </message>
    <message>
        <source>on this computer</source>
        <translation>auf diesem Computer</translation>
    </message>
    <message>
        <source>paused</source>
        <translation>angehalten</translation>
    </message>
    <message>
        <source>plain decoding, one token at a time</source>
        <translation>einfache Dekodierung, ein Token nach dem anderen</translation>
    </message>
    <message>
        <source>ready</source>
        <translation>fertig</translation>
    </message>
    <message>
        <source>size unknown</source>
        <translation>Größe unbekannt</translation>
    </message>
    <message>
        <source>stopped</source>
        <translation>unterbrochen</translation>
    </message>
    <message>
        <source>tight</source>
        <translation>knapp</translation>
    </message>
    <message>
        <source>too large</source>
        <translation>zu groß</translation>
    </message>
    <message>
        <source>up to {factor}× published</source>
        <translation>bis {factor}× veröffentlicht</translation>
    </message>
    <message>
        <source>waiting for its turn</source>
        <translation>wartet</translation>
    </message>
    <message>
        <source>{action}: {name}</source>
        <translation>{action}: {name}</translation>
    </message>
    <message numerus="yes">
        <source>{count} bytes</source>
        <translation>
            <numerusform>{count} Byte</numerusform>
            <numerusform>{count} Byte</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} downloads</source>
        <translation>
            <numerusform>{count} Download</numerusform>
            <numerusform>{count} Downloads</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} likes</source>
        <translation>
            <numerusform>{count} Like</numerusform>
            <numerusform>{count} Likes</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} tokens</source>
        <translation>
            <numerusform>{count} Token</numerusform>
            <numerusform>{count} Token</numerusform>
        </translation>
    </message>
    <message>
        <source>{device}: {free} of {total} memory are free.</source>
        <translation>{device}: {free} von {total} Speicher sind frei.</translation>
    </message>
    <message>
        <source>{done} of {total}</source>
        <translation>{done} von {total}</translation>
    </message>
    <message>
        <source>{downloads}, {share}</source>
        <translation>{downloads}, {share}</translation>
    </message>
    <message>
        <source>{factor}× ({source})</source>
        <translation>{factor}× ({source})</translation>
    </message>
    <message>
        <source>{file}:  {done} of {size}</source>
        <translation>{file}:  {done} von {size}</translation>
    </message>
    <message>
        <source>{file}:  {size}, here</source>
        <translation>{file}:  {size}, vorhanden</translation>
    </message>
    <message>
        <source>{hours} h {minutes} min left</source>
        <translation>noch {hours} h {minutes} min</translation>
    </message>
    <message>
        <source>{licence}, gated</source>
        <translation>{licence}, zugangsbeschränkt</translation>
    </message>
    <message>
        <source>{minutes} min left</source>
        <translation>noch {minutes} min</translation>
    </message>
    <message>
        <source>{model}  (has a head)</source>
        <translation>{model}  (hat einen Head)</translation>
    </message>
    <message>
        <source>{name} is downloaded.</source>
        <translation>{name} ist heruntergeladen.</translation>
    </message>
    <message>
        <source>{name}:  {value}</source>
        <translation>{name}:  {value}</translation>
    </message>
    <message>
        <source>{number} B</source>
        <translation>{number} Mrd.</translation>
    </message>
    <message>
        <source>{number} M</source>
        <translation>{number} Mio.</translation>
    </message>
    <message>
        <source>{parts}. Estimated from the size alone.</source>
        <translation>{parts}. Nur aus der Größe geschätzt.</translation>
    </message>
    <message>
        <source>{parts}. Reckoned from the tensors.</source>
        <translation>{parts}. Aus den Tensoren berechnet.</translation>
    </message>
    <message>
        <source>{seconds} s left</source>
        <translation>noch {seconds} s</translation>
    </message>
    <message>
        <source>{size}   in all</source>
        <translation>{size}   insgesamt</translation>
    </message>
    <message>
        <source>{size} GB</source>
        <translation>{size} GB</translation>
    </message>
    <message>
        <source>{size} GB, tight</source>
        <translation>{size} GB, knapp</translation>
    </message>
    <message numerus="yes">
        <source>{size} for {count} tokens</source>
        <translation>
            <numerusform>{size} für {count} Token</numerusform>
            <numerusform>{size} für {count} Token</numerusform>
        </translation>
    </message>
    <message>
        <source>{size} free on the disk</source>
        <translation>{size} auf dem Datenträger frei</translation>
    </message>
    <message>
        <source>{size} have arrived. Kept, they need not be fetched again later.</source>
        <translation>{size} sind angekommen. Behält man sie, müssen sie später nicht noch einmal geholt werden.</translation>
    </message>
    <message>
        <source>{size} head</source>
        <translation>{size} Head</translation>
    </message>
    <message>
        <source>{size} on disk</source>
        <translation>{size} auf dem Datenträger</translation>
    </message>
    <message>
        <source>{size} weights in {format}</source>
        <translation>{size} Gewichte in {format}</translation>
    </message>
    <message>
        <source>{size} workspace</source>
        <translation>{size} Arbeitsbereich</translation>
    </message>
    <message>
        <source>{size}/s</source>
        <translation>{size}/s</translation>
    </message>
</context>
<context>
    <name>Instructions</name>
    <message>
        <source>&amp;System prompt</source>
        <translation>&amp;System-Prompt</translation>
    </message>
    <message>
        <source>Choose a preset…</source>
        <translation>Vorlage wählen…</translation>
    </message>
    <message>
        <source>Clear</source>
        <translation>Leeren</translation>
    </message>
    <message>
        <source>Delete preset</source>
        <translation>Vorlage löschen</translation>
    </message>
    <message>
        <source>Name of the preset:</source>
        <translation>Name der Vorlage:</translation>
    </message>
    <message>
        <source>Preset</source>
        <translation>Vorlage</translation>
    </message>
    <message>
        <source>Save as preset</source>
        <translation>Als Vorlage speichern</translation>
    </message>
    <message>
        <source>Save as preset…</source>
        <translation>Als Vorlage speichern…</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>System-Prompt</translation>
    </message>
    <message>
        <source>System prompt and settings of this chat</source>
        <translation>System-Prompt und Einstellungen dieses Chats</translation>
    </message>
    <message>
        <source>What the model is told before the conversation, for instance its role.</source>
        <translation>Was dem Modell vor der Unterhaltung gesagt wird, zum Beispiel seine Rolle.</translation>
    </message>
</context>
<context>
    <name>Licence</name>
    <message>
        <source>I understand</source>
        <translation>Verstanden</translation>
    </message>
    <message>
        <source>Licence</source>
        <translation>Lizenz</translation>
    </message>
    <message>
        <source>Licence text</source>
        <translation>Lizenztext</translation>
    </message>
    <message>
        <source>Model licence</source>
        <translation>Modelllizenz</translation>
    </message>
    <message>
        <source>{model} is used under these terms.</source>
        <translation>{model} wird unter diesen Bedingungen verwendet.</translation>
    </message>
</context>
<context>
    <name>Link</name>
    <message>
        <source>Copy the address</source>
        <translation>Adresse kopieren</translation>
    </message>
    <message>
        <source>Eyrie opens web pages and mail addresses only. You can copy the address.</source>
        <translation>Eyrie öffnet nur Webseiten und Mailadressen. Sie können die Adresse kopieren.</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>Öffnen</translation>
    </message>
    <message>
        <source>Open this address?</source>
        <translation>Diese Adresse öffnen?</translation>
    </message>
    <message>
        <source>The model wrote this address. Open it only if you trust where it goes.</source>
        <translation>Diese Adresse hat das Modell geschrieben. Öffnen Sie sie nur, wenn Sie dem Ziel vertrauen.</translation>
    </message>
    <message>
        <source>This address is not opened</source>
        <translation>Diese Adresse wird nicht geöffnet</translation>
    </message>
    <message>
        <source>{beginning}… ({count} characters)</source>
        <translation>{beginning}… ({count} Zeichen)</translation>
    </message>
</context>
<context>
    <name>Loading</name>
    <message>
        <source>4 bits (NF4), on a GPU</source>
        <translation>4 Bit (NF4), auf einer GPU</translation>
    </message>
    <message>
        <source>8 bits, on a processor</source>
        <translation>8 Bit, auf einem Prozessor</translation>
    </message>
    <message>
        <source>A smaller model with the same vocabulary, for the method of that name.</source>
        <translation>Ein kleineres Modell mit demselben Vokabular, für das Verfahren dieses Namens.</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>Automatisch</translation>
    </message>
    <message>
        <source>Choose the folder of a draft model</source>
        <translation>Ordner eines Entwurfsmodells wählen</translation>
    </message>
    <message>
        <source>Choose the folder of a smaller model</source>
        <translation>Ordner eines kleineren Modells wählen</translation>
    </message>
    <message>
        <source>Choose…</source>
        <translation>Wählen…</translation>
    </message>
    <message>
        <source>Context (tokens)</source>
        <translation>Kontext (Token)</translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation>Entwurfsmodell</translation>
    </message>
    <message>
        <source>How long a chat can get. A longer one needs more memory.</source>
        <translation>Wie lang ein Chat werden kann. Ein längerer braucht mehr Speicher.</translation>
    </message>
    <message>
        <source>Loading</source>
        <translation>Laden</translation>
    </message>
    <message>
        <source>NF4 becomes 8 % smaller and a little slower.</source>
        <translation>NF4 wird 8 % kleiner und etwas langsamer.</translation>
    </message>
    <message>
        <source>No draft model</source>
        <translation>Kein Entwurfsmodell</translation>
    </message>
    <message>
        <source>None</source>
        <translation>Keines</translation>
    </message>
    <message>
        <source>Of files that are not quantised yet.</source>
        <translation>Von Dateien, die noch nicht quantisiert sind.</translation>
    </message>
    <message>
        <source>Quantise the scales, too</source>
        <translation>Auch die Skalen quantisieren</translation>
    </message>
    <message>
        <source>The model is loaded again when something changes here.</source>
        <translation>Das Modell wird neu geladen, wenn sich hier etwas ändert.</translation>
    </message>
    <message>
        <source>Weights</source>
        <translation>Gewichte</translation>
    </message>
</context>
<context>
    <name>Menu</name>
    <message>
        <source>&amp;About Eyrie</source>
        <translation>Über &amp;Eyrie</translation>
    </message>
    <message>
        <source>&amp;Chat</source>
        <translation>&amp;Chat</translation>
    </message>
    <message>
        <source>&amp;Chats</source>
        <translation>&amp;Chats</translation>
    </message>
    <message>
        <source>&amp;Copy diagnostics</source>
        <translation>&amp;Diagnosedaten kopieren</translation>
    </message>
    <message>
        <source>&amp;Copy the last reply</source>
        <translation>Letzte Antwort &amp;kopieren</translation>
    </message>
    <message>
        <source>&amp;Draft tree</source>
        <translation>&amp;Entwurfsbaum</translation>
    </message>
    <message>
        <source>&amp;EAGLE</source>
        <translation>&amp;EAGLE</translation>
    </message>
    <message>
        <source>&amp;Edit the last prompt</source>
        <translation>Letzten Prompt &amp;bearbeiten</translation>
    </message>
    <message>
        <source>&amp;File</source>
        <translation>&amp;Datei</translation>
    </message>
    <message>
        <source>&amp;Find a command…</source>
        <translation>&amp;Befehl suchen…</translation>
    </message>
    <message>
        <source>&amp;Free the GPU</source>
        <translation>&amp;GPU freigeben</translation>
    </message>
    <message>
        <source>&amp;Go to the prompt</source>
        <translation>&amp;Zum Prompt</translation>
    </message>
    <message>
        <source>&amp;Help</source>
        <translation>&amp;Hilfe</translation>
    </message>
    <message>
        <source>&amp;Import chats…</source>
        <translation>Chats &amp;importieren…</translation>
    </message>
    <message>
        <source>&amp;Keyboard shortcuts</source>
        <translation>&amp;Tastenkürzel</translation>
    </message>
    <message>
        <source>&amp;Larger text</source>
        <translation>&amp;Größere Schrift</translation>
    </message>
    <message>
        <source>&amp;Load the model</source>
        <translation>Modell &amp;laden</translation>
    </message>
    <message>
        <source>&amp;Mark accepted draft tokens</source>
        <translation>&amp;Angenommene Entwurfstoken markieren</translation>
    </message>
    <message>
        <source>&amp;Model</source>
        <translation>&amp;Modell</translation>
    </message>
    <message>
        <source>&amp;Models…</source>
        <translation>&amp;Modelle…</translation>
    </message>
    <message>
        <source>&amp;New chat</source>
        <translation>&amp;Neuer Chat</translation>
    </message>
    <message>
        <source>&amp;Normal text size</source>
        <translation>&amp;Normale Schriftgröße</translation>
    </message>
    <message>
        <source>&amp;Previous chat</source>
        <translation>Vori&amp;ger Chat</translation>
    </message>
    <message>
        <source>&amp;Quit</source>
        <translation>&amp;Beenden</translation>
    </message>
    <message>
        <source>&amp;Restart the engine</source>
        <translation>Engine &amp;neu starten</translation>
    </message>
    <message>
        <source>&amp;Settings for this model…</source>
        <translation>Ein&amp;stellungen für dieses Modell…</translation>
    </message>
    <message>
        <source>&amp;Settings…</source>
        <translation>Einste&amp;llungen…</translation>
    </message>
    <message>
        <source>&amp;Smaller text</source>
        <translation>&amp;Kleinere Schrift</translation>
    </message>
    <message>
        <source>&amp;Stop the reply</source>
        <translation>Antwort &amp;stoppen</translation>
    </message>
    <message>
        <source>&amp;Tour of the window</source>
        <translation>&amp;Rundgang durch das Fenster</translation>
    </message>
    <message>
        <source>&amp;Undo deleting a chat</source>
        <translation>Löschen e&amp;ines Chats rückgängig machen</translation>
    </message>
    <message>
        <source>&amp;View</source>
        <translation>&amp;Ansicht</translation>
    </message>
    <message>
        <source>&amp;Write the last reply again</source>
        <translation>Letzte Antwort &amp;neu schreiben</translation>
    </message>
    <message>
        <source>C&amp;ompare two settings…</source>
        <translation>Z&amp;wei Einstellungen vergleichen…</translation>
    </message>
    <message>
        <source>Cancel loa&amp;ding</source>
        <translation>Laden abbre&amp;chen</translation>
    </message>
    <message>
        <source>Comp&amp;arisons of this chat…</source>
        <translation>Vergleiche &amp;dieses Chats…</translation>
    </message>
    <message>
        <source>Con&amp;tinue the last reply</source>
        <translation>Letzte Antwort &amp;fortsetzen</translation>
    </message>
    <message>
        <source>Copy the chat as &amp;Markdown</source>
        <translation>Chat als &amp;Markdown kopieren</translation>
    </message>
    <message>
        <source>Export &amp;all chats…</source>
        <translation>&amp;Alle Chats exportieren…</translation>
    </message>
    <message>
        <source>Find, download and load models and heads</source>
        <translation>Modelle und Heads finden, herunterladen und laden</translation>
    </message>
    <message>
        <source>Model l&amp;icence…</source>
        <translation>Modellli&amp;zenz…</translation>
    </message>
    <message>
        <source>Ne&amp;xt chat</source>
        <translation>Nächster Cha&amp;t</translation>
    </message>
    <message>
        <source>Run two settings side by side: EAGLE on and off, methods, heads</source>
        <translation>Zwei Einstellungen nebeneinander laufen lassen: EAGLE ein und aus, Verfahren, Heads</translation>
    </message>
    <message>
        <source>Searc&amp;h chats</source>
        <translation>Chats durch&amp;suchen</translation>
    </message>
    <message>
        <source>Show or hide the chats</source>
        <translation>Chats ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Show or hide the draft tree</source>
        <translation>Entwurfsbaum ein- oder ausblenden</translation>
    </message>
    <message>
        <source>Unload the model and give its memory back</source>
        <translation>Modell entladen und seinen Speicher zurückgeben</translation>
    </message>
    <message>
        <source>Version &amp;before</source>
        <translation>&amp;Vorige Version</translation>
    </message>
    <message>
        <source>Version a&amp;fter</source>
        <translation>Nä&amp;chste Version</translation>
    </message>
</context>
<context>
    <name>Methods</name>
    <message>
        <source>Automatic ({method})</source>
        <translation>Automatisch ({method})</translation>
    </message>
    <message>
        <source>Choose the drafting method</source>
        <translation>Entwurfsverfahren wählen</translation>
    </message>
    <message>
        <source>Draftin&amp;g method</source>
        <translation>Entwurfs&amp;verfahren</translation>
    </message>
    <message>
        <source>{method} – not available</source>
        <translation>{method} – nicht verfügbar</translation>
    </message>
</context>
<context>
    <name>Model settings</name>
    <message>
        <source>Answer at once</source>
        <translation>Sofort antworten</translation>
    </message>
    <message>
        <source>As the model does</source>
        <translation>Wie das Modell es hält</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>Automatisch</translation>
    </message>
    <message>
        <source>Changes the distribution: the reply no longer follows the model's own.</source>
        <translation>Verändert die Verteilung: Die Antwort folgt nicht mehr der des Modells.</translation>
    </message>
    <message>
        <source>Default ({value})</source>
        <translation>Standard ({value})</translation>
    </message>
    <message>
        <source>Drafting</source>
        <translation>Entwerfen</translation>
    </message>
    <message>
        <source>Drafting method</source>
        <translation>Entwurfsverfahren</translation>
    </message>
    <message>
        <source>For chats that have none of their own</source>
        <translation>Für Chats, die keinen eigenen haben</translation>
    </message>
    <message>
        <source>On</source>
        <translation>Ein</translation>
    </message>
    <message>
        <source>Replies</source>
        <translation>Antworten</translation>
    </message>
    <message>
        <source>Settings for this model</source>
        <translation>Einstellungen für dieses Modell</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>System-Prompt</translation>
    </message>
    <message>
        <source>System prompt for chats that have none of their own</source>
        <translation>System-Prompt für Chats, die keinen eigenen haben</translation>
    </message>
    <message>
        <source>The method that suits this model, with what the engine measured.</source>
        <translation>Das Verfahren, das zu diesem Modell passt, mit dem, was die Engine gemessen hat.</translation>
    </message>
    <message>
        <source>Think first</source>
        <translation>Erst nachdenken</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>Nachdenken</translation>
    </message>
    <message>
        <source>What is set here wins over the settings; what a chat has its own way wins over this.</source>
        <translation>Was hier eingestellt ist, geht den Einstellungen vor; was ein Chat für sich festlegt, geht diesem vor.</translation>
    </message>
    <message>
        <source>lossless</source>
        <translation>verlustfrei</translation>
    </message>
    <message>
        <source>off</source>
        <translation>aus</translation>
    </message>
    <message>
        <source>on</source>
        <translation>ein</translation>
    </message>
    <message>
        <source>typical</source>
        <translation>typisch</translation>
    </message>
    <message>
        <source>{setting}: default</source>
        <translation>{setting}: Standard</translation>
    </message>
</context>
<context>
    <name>Notices</name>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Cancel loading</source>
        <translation>Laden abbrechen</translation>
    </message>
    <message>
        <source>Cancel the export or import</source>
        <translation>Export oder Import abbrechen</translation>
    </message>
    <message>
        <source>Copy details</source>
        <translation>Details kopieren</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>Ausblenden</translation>
    </message>
    <message>
        <source>EAGLE is not available. {why}</source>
        <translation>EAGLE ist nicht verfügbar. {why}</translation>
    </message>
    <message>
        <source>Eyrie did not end properly last time.</source>
        <translation>Eyrie wurde beim letzten Mal nicht ordnungsgemäß beendet.</translation>
    </message>
    <message>
        <source>Load the model</source>
        <translation>Modell laden</translation>
    </message>
    <message>
        <source>Loading progress</source>
        <translation>Ladefortschritt</translation>
    </message>
    <message>
        <source>No EAGLE head is loaded for this model, so replies are decoded one token at a time.</source>
        <translation>Für dieses Modell ist kein EAGLE-Head geladen, daher werden Antworten Token für Token dekodiert.</translation>
    </message>
    <message>
        <source>No details are known.</source>
        <translation>Es sind keine Einzelheiten bekannt.</translation>
    </message>
    <message>
        <source>Progress of the export or import</source>
        <translation>Fortschritt des Exports oder Imports</translation>
    </message>
    <message>
        <source>Restart engine</source>
        <translation>Engine neu starten</translation>
    </message>
    <message>
        <source>Show the downloads</source>
        <translation>Downloads zeigen</translation>
    </message>
    <message>
        <source>Something unexpected went wrong: {kind}.</source>
        <translation>Etwas Unerwartetes ist schiefgegangen: {kind}.</translation>
    </message>
    <message>
        <source>Starting the engine…</source>
        <translation>Die Engine startet…</translation>
    </message>
    <message>
        <source>This is a tiny demo model. It shows how speculative decoding works, but it makes things up: do not rely on its answers. Better models come from the model hub.</source>
        <translation>Dies ist ein winziges Demo-Modell. Es zeigt, wie spekulatives Dekodieren funktioniert, aber es erfindet Dinge: Verlassen Sie sich nicht auf seine Antworten. Bessere Modelle gibt es im Modell-Hub.</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>Erneut versuchen</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>Rückgängig</translation>
    </message>
    <message>
        <source>What was received is kept.</source>
        <translation>Was empfangen wurde, bleibt erhalten.</translation>
    </message>
    <message>
        <source>You can go on; the log has the details.</source>
        <translation>Sie können weitermachen; Einzelheiten stehen im Protokoll.</translation>
    </message>
</context>
<context>
    <name>Panel</name>
    <message numerus="yes">
        <source>%n guesses</source>
        <translation>
            <numerusform>%n Vermutung</numerusform>
            <numerusform>%n Vermutungen</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n levels</source>
        <translation>
            <numerusform>%n Ebene</numerusform>
            <numerusform>%n Ebenen</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n passes ago</source>
        <translation>
            <numerusform>letzter Durchlauf</numerusform>
            <numerusform>vor %n Durchläufen</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n places</source>
        <translation>
            <numerusform>%n Stelle</numerusform>
            <numerusform>%n Stellen</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n rows</source>
        <translation>
            <numerusform>%n Zeile</numerusform>
            <numerusform>%n Zeilen</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n steps</source>
        <translation>
            <numerusform>%n Schritt</numerusform>
            <numerusform>%n Schritte</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n tokens</source>
        <translation>
            <numerusform>%n Token</numerusform>
            <numerusform>%n Token</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n tokens earlier</source>
        <translation>
            <numerusform>%n Token früher</numerusform>
            <numerusform>%n Token früher</numerusform>
        </translation>
    </message>
    <message>
        <source>, more than any other token</source>
        <translation>, mehr als jedem anderen Token</translation>
    </message>
    <message>
        <source>, number {rank} of all tokens</source>
        <translation>, Nummer {rank} aller Token</translation>
    </message>
    <message>
        <source>, number {rank} of all {count}</source>
        <translation>, Nummer {rank} von allen {count}</translation>
    </message>
    <message>
        <source>, number {rank} of its {count} guesses here</source>
        <translation>, Nummer {rank} seiner {count} Vermutungen hier</translation>
    </message>
    <message>
        <source>A guess that follows a rejected one, so it was never looked at.</source>
        <translation>Eine Vermutung nach einer verworfenen; sie wurde nie angesehen.</translation>
    </message>
    <message>
        <source>A guess that the target confirmed: a token for free.</source>
        <translation>Eine Vermutung, die das Zielmodell bestätigt hat: ein geschenktes Token.</translation>
    </message>
    <message>
        <source>A guess where the target chose another token.</source>
        <translation>Eine Vermutung, wo das Zielmodell ein anderes Token gewählt hat.</translation>
    </message>
    <message>
        <source>A language model writes one token (a word or a piece of one) at a time, and each token costs a pass through the whole model, here called the target. It is like a careful author who reads the whole text again before every word.</source>
        <translation>Ein Sprachmodell schreibt ein Token (ein Wort oder ein Stück davon) nach dem anderen, und jedes Token kostet einen Durchlauf durch das ganze Modell, hier Zielmodell genannt. Es gleicht einem sorgfältigen Autor, der vor jedem Wort den ganzen Text noch einmal liest.</translation>
    </message>
    <message>
        <source>A quick helper guesses how the text goes on, one token after the other. That is the row, read from left to right. The target then checks all guesses in a single pass. It keeps them up to the first one it disagrees with, and puts a token of its own in that place, the bonus token. What follows a wrong guess is thrown away.</source>
        <translation>Ein schneller Helfer vermutet, wie der Text weitergeht, Token für Token. Das ist die Reihe, von links nach rechts gelesen. Das Zielmodell prüft dann alle Vermutungen in einem einzigen Durchlauf. Es behält sie bis zur ersten, mit der es nicht einverstanden ist, und setzt an deren Stelle ein eigenes Token, das Bonus-Token. Was auf eine falsche Vermutung folgt, wird weggeworfen.</translation>
    </message>
    <message>
        <source>A small, quick helper guesses several ways the text may go on. That is the tree, read from left to right: the thicker a line, the surer the guess. The target then checks all guesses in a single pass. It keeps the longest path it agrees with (the straight line at the top) and adds one token of its own, the bonus token. Everything else is thrown away.</source>
        <translation>Ein kleiner, schneller Helfer vermutet mehrere Fortsetzungen des Textes. Das ist der Baum, von links nach rechts gelesen: je dicker eine Linie, desto sicherer die Vermutung. Das Zielmodell prüft dann alle Vermutungen in einem einzigen Durchlauf. Es behält den längsten Pfad, mit dem es einverstanden ist (die gerade Linie oben), und fügt ein eigenes Token hinzu, das Bonus-Token. Alles andere wird weggeworfen.</translation>
    </message>
    <message>
        <source>Acceptance by depth</source>
        <translation>Annahme nach Tiefe</translation>
    </message>
    <message>
        <source>Acceptance length: tokens emitted per pass of the target so far, the bonus token included. Without guessing it is 1.</source>
        <translation>Annahmelänge: bisher ausgegebene Token je Durchlauf des Zielmodells, das Bonus-Token eingeschlossen. Ohne Vermutungen ist sie 1.</translation>
    </message>
    <message>
        <source>Accepted</source>
        <translation>Angenommen</translation>
    </message>
    <message>
        <source>Accepted: the target chose this token too</source>
        <translation>Angenommen: Das Zielmodell wählte dieses Token auch</translation>
    </message>
    <message>
        <source>All steps as JSON…</source>
        <translation>Alle Schritte als JSON…</translation>
    </message>
    <message>
        <source>All steps as an animated GIF…</source>
        <translation>Alle Schritte als animiertes GIF…</translation>
    </message>
    <message>
        <source>Already chosen in the step before; the guesses start from it.</source>
        <translation>Schon im Schritt davor gewählt; von ihm gehen die Vermutungen aus.</translation>
    </message>
    <message>
        <source>An animation holds {most} steps at most; the reply has {total}.</source>
        <translation>Eine Animation fasst höchstens {most} Schritte; die Antwort hat {total}.</translation>
    </message>
    <message>
        <source>At step {step}: {notice}</source>
        <translation>In Schritt {step}: {notice}</translation>
    </message>
    <message>
        <source>Beside them a window of {rows} over {places}.</source>
        <translation>Daneben ein Fenster von {rows} über {places}.</translation>
    </message>
    <message>
        <source>Bonus</source>
        <translation>Bonus</translation>
    </message>
    <message>
        <source>Bonus token</source>
        <translation>Bonus-Token</translation>
    </message>
    <message>
        <source>Bonus token: chosen by the target itself, root of the next step</source>
        <translation>Bonus-Token: vom Zielmodell selbst gewählt, Wurzel des nächsten Schritts</translation>
    </message>
    <message>
        <source>Bonus token: chosen by the target itself. It ends the step and is the next root.</source>
        <translation>Bonus-Token: vom Zielmodell selbst gewählt. Es beendet den Schritt und ist die nächste Wurzel.</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>Abbrechen</translation>
    </message>
    <message>
        <source>Cancelled. Nothing was written.</source>
        <translation>Abgebrochen. Es wurde nichts geschrieben.</translation>
    </message>
    <message>
        <source>Choose another file or folder.</source>
        <translation>Wählen Sie eine andere Datei oder einen anderen Ordner.</translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation>Wählen Sie einen anderen Ordner.</translation>
    </message>
    <message>
        <source>Chosen by the target</source>
        <translation>Vom Zielmodell gewählt</translation>
    </message>
    <message>
        <source>Chosen: no guessing, because it would be slower now.</source>
        <translation>Gewählt: keine Vermutungen, weil sie jetzt bremsen würden.</translation>
    </message>
    <message>
        <source>Chosen: {rows}, {levels}.</source>
        <translation>Gewählt: {rows}, {levels}.</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>Kopieren</translation>
    </message>
    <message>
        <source>Copy the selected rows, or the whole table</source>
        <translation>Gewählte Zeilen kopieren oder die ganze Tabelle</translation>
    </message>
    <message>
        <source>Decode speed so far, in tokens per second; the time to read the prompt is left out. In brackets: the last 2 seconds.</source>
        <translation>Bisherige Dekodiergeschwindigkeit in Token pro Sekunde, ohne das Lesen des Prompts. In Klammern: die letzten 2 Sekunden.</translation>
    </message>
    <message>
        <source>Depth</source>
        <translation>Tiefe</translation>
    </message>
    <message>
        <source>Depth {depth}: accepted in {accepted} of {steps} that guessed this far ({share} %)</source>
        <translation>Tiefe {depth}: angenommen in {accepted} von {steps}, die so weit vermuteten ({share} %)</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>Ausblenden</translation>
    </message>
    <message>
        <source>Draft</source>
        <translation>Entwurf</translation>
    </message>
    <message>
        <source>Draft rank</source>
        <translation>Rang im Entwurf</translation>
    </message>
    <message>
        <source>Draft tree</source>
        <translation>Entwurfsbaum</translation>
    </message>
    <message>
        <source>Draft tree as a table</source>
        <translation>Entwurfsbaum als Tabelle</translation>
    </message>
    <message>
        <source>Draft tree panel</source>
        <translation>Bereich Entwurfsbaum</translation>
    </message>
    <message>
        <source>Enter shows a token in the text</source>
        <translation>Eingabe zeigt ein Token im Text</translation>
    </message>
    <message>
        <source>Expected on this machine, by rows that the target checks in one pass:</source>
        <translation>Auf diesem Rechner zu erwarten, nach Zeilen, die das Zielmodell in einem Durchlauf prüft:</translation>
    </message>
    <message>
        <source>Export</source>
        <translation>Exportieren</translation>
    </message>
    <message>
        <source>Export…</source>
        <translation>Exportieren…</translation>
    </message>
    <message>
        <source>First step (Home)</source>
        <translation>Erster Schritt (Pos1)</translation>
    </message>
    <message>
        <source>Fit</source>
        <translation>Einpassen</translation>
    </message>
    <message>
        <source>Fit the whole tree into the view</source>
        <translation>Ganzen Baum in die Ansicht einpassen</translation>
    </message>
    <message>
        <source>Follow the reply again (Space)</source>
        <translation>Der Antwort wieder folgen (Leertaste)</translation>
    </message>
    <message>
        <source>Follows</source>
        <translation>Folgt auf</translation>
    </message>
    <message>
        <source>Free some space, or choose another disk.</source>
        <translation>Schaffen Sie Platz, oder wählen Sie einen anderen Datenträger.</translation>
    </message>
    <message>
        <source>Guesses that the target confirmed, of all guesses so far. Only one path of a tree can be accepted, so the share is low even when guessing does well.</source>
        <translation>Vermutungen, die das Zielmodell bestätigt hat, von allen bisher. Von einem Baum kann nur ein Pfad angenommen werden, daher ist der Anteil auch bei guten Vermutungen klein.</translation>
    </message>
    <message>
        <source>Guesses, checked in this pass</source>
        <translation>Vermutungen, in diesem Durchlauf geprüft</translation>
    </message>
    <message>
        <source>Guessing is off: one token per step. There is nothing to draw; the timeline below still shows every step.</source>
        <translation>Das Vermuten ist aus: ein Token je Schritt. Zu zeichnen gibt es nichts; die Zeitleiste unten zeigt weiter jeden Schritt.</translation>
    </message>
    <message>
        <source>Last step (End)</source>
        <translation>Letzter Schritt (Ende)</translation>
    </message>
    <message>
        <source>Legend of the draft tree</source>
        <translation>Legende des Entwurfsbaums</translation>
    </message>
    <message>
        <source>Live</source>
        <translation>Live</translation>
    </message>
    <message>
        <source>Live +{count}</source>
        <translation>Live +{count}</translation>
    </message>
    <message>
        <source>No reply yet.
Send a message, and the guesses behind every token grow here.</source>
        <translation>Noch keine Antwort.
Senden Sie eine Nachricht, und hier wachsen die Vermutungen hinter jedem Token.</translation>
    </message>
    <message>
        <source>No steps yet</source>
        <translation>Noch keine Schritte</translation>
    </message>
    <message>
        <source>Not a guess yet: the target works these out on the side, to find the next guesses.</source>
        <translation>Noch keine Vermutung: Das Zielmodell rechnet sie nebenher aus, um die nächsten Vermutungen zu finden.</translation>
    </message>
    <message>
        <source>Not reached</source>
        <translation>Nicht erreicht</translation>
    </message>
    <message>
        <source>Not reached: a guess before it was rejected</source>
        <translation>Nicht erreicht: Eine Vermutung davor wurde verworfen</translation>
    </message>
    <message>
        <source>Nothing has been guessed yet.</source>
        <translation>Noch wurde nichts vermutet.</translation>
    </message>
    <message>
        <source>Nothing has been measured yet.</source>
        <translation>Noch wurde nichts gemessen.</translation>
    </message>
    <message>
        <source>Nothing may be written into the folder “{folder}”.</source>
        <translation>In den Ordner „{folder}“ darf nichts geschrieben werden.</translation>
    </message>
    <message>
        <source>Nothing was guessed in this step.</source>
        <translation>In diesem Schritt wurde nichts vermutet.</translation>
    </message>
    <message>
        <source>One exception: with “typical acceptance” the target also keeps guesses that it would not have chosen itself. That setting is off unless you choose it.</source>
        <translation>Eine Ausnahme: Mit „typischer Annahme“ behält das Zielmodell auch Vermutungen, die es selbst nicht gewählt hätte. Diese Einstellung ist aus, solange Sie sie nicht wählen.</translation>
    </message>
    <message>
        <source>One step back (Left)</source>
        <translation>Einen Schritt zurück (Links)</translation>
    </message>
    <message>
        <source>One step forward (Right)</source>
        <translation>Einen Schritt vor (Rechts)</translation>
    </message>
    <message>
        <source>Over the last 2 seconds: τ {tau}, {speed} tokens per second</source>
        <translation>In den letzten 2 Sekunden: τ {tau}, {speed} Token pro Sekunde</translation>
    </message>
    <message>
        <source>Pause (Space)</source>
        <translation>Anhalten (Leertaste)</translation>
    </message>
    <message>
        <source>Picture</source>
        <translation>Bild</translation>
    </message>
    <message>
        <source>Progress of the export</source>
        <translation>Fortschritt des Exports</translation>
    </message>
    <message>
        <source>Prompt pass</source>
        <translation>Prompt-Durchlauf</translation>
    </message>
    <message>
        <source>Prompt pass, then {steps}</source>
        <translation>Prompt-Durchlauf, dann {steps}</translation>
    </message>
    <message>
        <source>Prompt pass: the target read the prompt and chose the first token, {tokens}.</source>
        <translation>Prompt-Durchlauf: Das Zielmodell las den Prompt und wählte das erste Token, {tokens}.</translation>
    </message>
    <message>
        <source>Reading the prompt…</source>
        <translation>Der Prompt wird gelesen…</translation>
    </message>
    <message>
        <source>Rejected</source>
        <translation>Verworfen</translation>
    </message>
    <message>
        <source>Rejected: the target chose another token here</source>
        <translation>Verworfen: Das Zielmodell wählte hier ein anderes Token</translation>
    </message>
    <message>
        <source>Rejected: the target chose {token} here</source>
        <translation>Verworfen: Das Zielmodell wählte hier {token}</translation>
    </message>
    <message>
        <source>Root</source>
        <translation>Wurzel</translation>
    </message>
    <message>
        <source>Root: chosen by the target in the step before</source>
        <translation>Wurzel: im Schritt davor vom Zielmodell gewählt</translation>
    </message>
    <message>
        <source>Save this step or all steps as a file</source>
        <translation>Diesen Schritt oder alle Schritte als Datei speichern</translation>
    </message>
    <message>
        <source>Saved as {path}.</source>
        <translation>Gespeichert als {path}.</translation>
    </message>
    <message>
        <source>Scroll the panel</source>
        <translation>Bereich rollen</translation>
    </message>
    <message>
        <source>Scroll the tree sideways</source>
        <translation>Baum seitwärts rollen</translation>
    </message>
    <message>
        <source>Scroll the tree up and down</source>
        <translation>Baum auf und ab rollen</translation>
    </message>
    <message>
        <source>Show the step as a picture</source>
        <translation>Schritt als Bild zeigen</translation>
    </message>
    <message>
        <source>Show the step as a table</source>
        <translation>Schritt als Tabelle zeigen</translation>
    </message>
    <message>
        <source>Since step {step}: {notice}</source>
        <translation>Seit Schritt {step}: {notice}</translation>
    </message>
    <message>
        <source>So one pass can give several tokens, and the target still decides every one of them: wrong guesses cost a little time, never quality. τ (tau) is how many tokens a pass gave on average; without guessing it is 1.</source>
        <translation>So kann ein Durchlauf mehrere Token ergeben, und doch entscheidet das Zielmodell über jedes einzelne: Falsche Vermutungen kosten etwas Zeit, nie Qualität. τ (Tau) sagt, wie viele Token ein Durchlauf im Mittel ergab; ohne Vermutungen ist es 1.</translation>
    </message>
    <message>
        <source>Speed by size</source>
        <translation>Tempo nach Größe</translation>
    </message>
    <message>
        <source>Step of the reply</source>
        <translation>Schritt der Antwort</translation>
    </message>
    <message>
        <source>Step {step}</source>
        <translation>Schritt {step}</translation>
    </message>
    <message>
        <source>Step {step} of {last}</source>
        <translation>Schritt {step} von {last}</translation>
    </message>
    <message>
        <source>Step {step}, plain decoding: the target chose {tokens}.</source>
        <translation>Schritt {step}, einfache Dekodierung: Das Zielmodell wählte {tokens}.</translation>
    </message>
    <message>
        <source>Step {step}: {accepted} of {guesses} accepted, {count} emitted: {tokens}.</source>
        <translation>Schritt {step}: {accepted} von {guesses} angenommen, {count} ausgegeben: {tokens}.</translation>
    </message>
    <message>
        <source>Table</source>
        <translation>Tabelle</translation>
    </message>
    <message>
        <source>Target</source>
        <translation>Zielmodell</translation>
    </message>
    <message>
        <source>Target rank</source>
        <translation>Rang im Zielmodell</translation>
    </message>
    <message>
        <source>Target token</source>
        <translation>Token des Zielmodells</translation>
    </message>
    <message>
        <source>The course of a reply appears here.</source>
        <translation>Hier erscheint der Verlauf einer Antwort.</translation>
    </message>
    <message>
        <source>The draft gave it {percent}</source>
        <translation>Der Entwurf gab ihm {percent}</translation>
    </message>
    <message>
        <source>The file could not be made: {reason}.</source>
        <translation>Die Datei konnte nicht erstellt werden: {reason}.</translation>
    </message>
    <message>
        <source>The guesses of this early step were given up to save memory; its token and figures are kept.</source>
        <translation>Die Vermutungen dieses frühen Schritts wurden aufgegeben, um Speicher zu sparen; sein Token und seine Zahlen bleiben.</translation>
    </message>
    <message>
        <source>The helper at work is called {name}. {about}</source>
        <translation>Der Helfer bei der Arbeit heißt {name}. {about}</translation>
    </message>
    <message numerus="yes">
        <source>The last %n steps up to here as an animated GIF…</source>
        <translation>
            <numerusform>Den letzten Schritt bis hier als animiertes GIF…</numerusform>
            <numerusform>Die letzten %n Schritte bis hier als animiertes GIF…</numerusform>
        </translation>
    </message>
    <message>
        <source>The reply ended before its first token.</source>
        <translation>Die Antwort endete vor ihrem ersten Token.</translation>
    </message>
    <message>
        <source>The target gave it {percent}</source>
        <translation>Das Zielmodell gab ihm {percent}</translation>
    </message>
    <message>
        <source>The target read the prompt and chose this token by itself. Guessing starts from it.</source>
        <translation>Das Zielmodell las den Prompt und wählte dieses Token selbst. Davon geht das Vermuten aus.</translation>
    </message>
    <message>
        <source>The text's last words, {words}, also stood {where}. The guesses are what followed them there.</source>
        <translation>Die letzten Wörter des Textes, {words}, standen auch {where}. Vermutet wird, was dort auf sie folgte.</translation>
    </message>
    <message>
        <source>There is no folder “{folder}”.</source>
        <translation>Es gibt keinen Ordner „{folder}“.</translation>
    </message>
    <message>
        <source>There is no helper here: the target guesses for itself. In the grid it fills in several places of the text ahead at once, roughly at first and better with every pass. Sequences of words that come up there are collected, and those that begin with the text's last token stand above as guesses. The target checks them in the same pass, keeps the longest beginning that it agrees with and adds a token of its own, the bonus token.</source>
        <translation>Hier gibt es keinen Helfer: Das Zielmodell vermutet für sich selbst. Im Gitter füllt es mehrere kommende Stellen des Textes zugleich, erst grob und mit jedem Durchlauf besser. Wortfolgen, die dabei auftauchen, werden gesammelt, und die, die mit dem letzten Token des Textes beginnen, stehen oben als Vermutungen. Das Zielmodell prüft sie im selben Durchlauf, behält den längsten Anfang, mit dem es einverstanden ist, und fügt ein eigenes Token hinzu, das Bonus-Token.</translation>
    </message>
    <message>
        <source>There is no room left on the disk for “{name}”.</source>
        <translation>Auf dem Datenträger ist kein Platz mehr für „{name}“.</translation>
    </message>
    <message>
        <source>This step as PNG…</source>
        <translation>Diesen Schritt als PNG…</translation>
    </message>
    <message>
        <source>This step as SVG…</source>
        <translation>Diesen Schritt als SVG…</translation>
    </message>
    <message>
        <source>Time of this step</source>
        <translation>Zeit dieses Schritts</translation>
    </message>
    <message>
        <source>Token</source>
        <translation>Token</translation>
    </message>
    <message>
        <source>Token id</source>
        <translation>Token-ID</translation>
    </message>
    <message>
        <source>Token {token}, id {id}</source>
        <translation>Token {token}, ID {id}</translation>
    </message>
    <message>
        <source>Tokens per step</source>
        <translation>Token je Schritt</translation>
    </message>
    <message>
        <source>Try another format; the log has the details.</source>
        <translation>Versuchen Sie ein anderes Format; Einzelheiten stehen im Protokoll.</translation>
    </message>
    <message>
        <source>Verdict</source>
        <translation>Urteil</translation>
    </message>
    <message>
        <source>What am I looking at?</source>
        <translation>Was sehe ich hier?</translation>
    </message>
    <message>
        <source>What the target would have given it was not worked out</source>
        <translation>Was ihm das Zielmodell gegeben hätte, wurde nicht ausgerechnet</translation>
    </message>
    <message>
        <source>Which pass of the target is shown.</source>
        <translation>Welcher Durchlauf des Zielmodells gezeigt wird.</translation>
    </message>
    <message>
        <source>Window</source>
        <translation>Fenster</translation>
    </message>
    <message>
        <source>Window ({row}): not a guess, but where the next guesses come from</source>
        <translation>Fenster ({row}): keine Vermutung, aber daraus kommen die nächsten</translation>
    </message>
    <message>
        <source>Window: places ahead that the target fills in on the side</source>
        <translation>Fenster: kommende Stellen, die das Zielmodell nebenher füllt</translation>
    </message>
    <message>
        <source>Writing “{name}”…</source>
        <translation>„{name}“ wird geschrieben…</translation>
    </message>
    <message>
        <source>Zoom in (Ctrl++)</source>
        <translation>Vergrößern (Strg++)</translation>
    </message>
    <message>
        <source>Zoom out (Ctrl+−)</source>
        <translation>Verkleinern (Strg+−)</translation>
    </message>
    <message>
        <source>a token</source>
        <translation>ein Token</translation>
    </message>
    <message>
        <source>accept</source>
        <translation>annehmen</translation>
    </message>
    <message>
        <source>accepted/drafted</source>
        <translation>angenommen/entworfen</translation>
    </message>
    <message>
        <source>accepted/drafted, {share} %</source>
        <translation>angenommen, {share} %</translation>
    </message>
    <message>
        <source>and the whole path {percent}</source>
        <translation>und dem ganzen Pfad {percent}</translation>
    </message>
    <message>
        <source>draft</source>
        <translation>entwerfen</translation>
    </message>
    <message>
        <source>draft: the guesses are made. verify: the target checks all of them in one pass. accept: choosing the path and tidying the cache. other: the rest.</source>
        <translation>entwerfen: Die Vermutungen entstehen. prüfen: Das Zielmodell prüft alle in einem Durchlauf. annehmen: Der Pfad wird gewählt, der Cache aufgeräumt. Übriges: der Rest.</translation>
    </message>
    <message>
        <source>none</source>
        <translation>keine</translation>
    </message>
    <message>
        <source>other</source>
        <translation>Übriges</translation>
    </message>
    <message>
        <source>prompt</source>
        <translation>Prompt</translation>
    </message>
    <message>
        <source>step</source>
        <translation>Schritt</translation>
    </message>
    <message>
        <source>step of {last}</source>
        <translation>Schritt von {last}</translation>
    </message>
    <message>
        <source>tokens per step (τ)</source>
        <translation>Token je Schritt (τ)</translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation>Token/s</translation>
    </message>
    <message>
        <source>tokens/s (now {speed})</source>
        <translation>Token/s (jetzt {speed})</translation>
    </message>
    <message>
        <source>tokens/s, up to {speed}</source>
        <translation>Token/s, bis {speed}</translation>
    </message>
    <message numerus="yes">
        <source>up to %n rows</source>
        <translation>
            <numerusform>bis zu %n Zeile</numerusform>
            <numerusform>bis zu %n Zeilen</numerusform>
        </translation>
    </message>
    <message>
        <source>verify</source>
        <translation>prüfen</translation>
    </message>
    <message>
        <source>without guessing: {speed} tokens/s</source>
        <translation>ohne Vermutungen: {speed} Token/s</translation>
    </message>
    <message>
        <source>{accepted} of {drafted} guesses accepted so far</source>
        <translation>bisher {accepted} von {drafted} Vermutungen angenommen</translation>
    </message>
    <message>
        <source>{kind}, depth {depth}</source>
        <translation>{kind}, Tiefe {depth}</translation>
    </message>
    <message>
        <source>{rows}: {speed} tokens/s, {tokens} tokens a step</source>
        <translation>{rows}: {speed} Token/s, {tokens} Token je Schritt</translation>
    </message>
    <message>
        <source>{speed} tokens/s</source>
        <translation>{speed} Token/s</translation>
    </message>
    <message>
        <source>{steps}, {least} to {most} tokens each; lately τ {tau} and {speed} tokens per second</source>
        <translation>{steps}, je {least} bis {most} Token; zuletzt τ {tau} und {speed} Token pro Sekunde</translation>
    </message>
    <message>
        <source>{step}: {tokens}</source>
        <translation>{step}: {tokens}</translation>
    </message>
    <message>
        <source>{total} in all: {parts}</source>
        <translation>{total} insgesamt: {parts}</translation>
    </message>
    <message>
        <source>“{name}” could not be written: {reason}.</source>
        <translation>„{name}“ konnte nicht geschrieben werden: {reason}.</translation>
    </message>
</context>
<context>
    <name>Reply</name>
    <message>
        <source>Acceptance length τ: tokens gained per pass of the target model, the bonus token included. Plain decoding has 1.</source>
        <translation>Annahmelänge τ: gewonnene Token je Durchlauf des Zielmodells, das Bonus-Token eingeschlossen. Einfache Dekodierung hat 1.</translation>
    </message>
    <message>
        <source>Continue this reply</source>
        <translation>Diese Antwort fortsetzen</translation>
    </message>
    <message>
        <source>Conversation</source>
        <translation>Unterhaltung</translation>
    </message>
    <message>
        <source>Copy this code</source>
        <translation>Diesen Code kopieren</translation>
    </message>
    <message>
        <source>Copy this code ({language})</source>
        <translation>Diesen Code kopieren ({language})</translation>
    </message>
    <message>
        <source>Copy this prompt</source>
        <translation>Diesen Prompt kopieren</translation>
    </message>
    <message>
        <source>Copy this reply</source>
        <translation>Diese Antwort kopieren</translation>
    </message>
    <message>
        <source>Copy this reply as Markdown</source>
        <translation>Diese Antwort als Markdown kopieren</translation>
    </message>
    <message numerus="yes">
        <source>Drafted: {count} tokens, accepted {accepted} ({share})</source>
        <translation>
            <numerusform>Entworfen: {count} Token, angenommen {accepted} ({share})</numerusform>
            <numerusform>Entworfen: {count} Token, angenommen {accepted} ({share})</numerusform>
        </translation>
    </message>
    <message>
        <source>EAGLE</source>
        <translation>EAGLE</translation>
    </message>
    <message>
        <source>Edit this prompt</source>
        <translation>Diesen Prompt bearbeiten</translation>
    </message>
    <message>
        <source>Go to the newest text</source>
        <translation>Zum neuesten Text</translation>
    </message>
    <message>
        <source>Opens only after you confirm: {address}</source>
        <translation>Öffnet sich erst nach Ihrer Bestätigung: {address}</translation>
    </message>
    <message>
        <source>Passes of the target after the prompt: {count}</source>
        <translation>Durchläufe des Zielmodells nach dem Prompt: {count}</translation>
    </message>
    <message numerus="yes">
        <source>Prompt: {count} tokens, {reused} of them kept from the turn before</source>
        <translation>
            <numerusform>Prompt: {count} Token, davon {reused} von der Runde davor behalten</numerusform>
            <numerusform>Prompt: {count} Token, davon {reused} von der Runde davor behalten</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Reading the prompt ({count} tokens)…</source>
        <translation>
            <numerusform>Der Prompt wird gelesen ({count} Token)…</numerusform>
            <numerusform>Der Prompt wird gelesen ({count} Token)…</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Reading the prompt: {done} of {count} tokens</source>
        <translation>
            <numerusform>Der Prompt wird gelesen: {done} von {count} Token</numerusform>
            <numerusform>Der Prompt wird gelesen: {done} von {count} Token</numerusform>
        </translation>
    </message>
    <message>
        <source>Reply</source>
        <translation>Antwort</translation>
    </message>
    <message>
        <source>Reply of the model</source>
        <translation>Antwort des Modells</translation>
    </message>
    <message>
        <source>Reply of {model}</source>
        <translation>Antwort von {model}</translation>
    </message>
    <message numerus="yes">
        <source>Show all {count} lines</source>
        <translation>
            <numerusform>{count} Zeile zeigen</numerusform>
            <numerusform>Alle {count} Zeilen zeigen</numerusform>
        </translation>
    </message>
    <message>
        <source>Show or hide what the model thought before it answered</source>
        <translation>Ein- oder ausblenden, was das Modell vor der Antwort dachte</translation>
    </message>
    <message numerus="yes">
        <source>Show {count} earlier messages</source>
        <translation>
            <numerusform>{count} frühere Nachricht zeigen</numerusform>
            <numerusform>{count} frühere Nachrichten zeigen</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Show {some} of {count} lines more</source>
        <translation>
            <numerusform>{some} von {count} weiteren Zeile zeigen</numerusform>
            <numerusform>{some} von {count} weiteren Zeilen zeigen</numerusform>
        </translation>
    </message>
    <message>
        <source>Step {number}: chosen by the target</source>
        <translation>Schritt {number}: vom Zielmodell gewählt</translation>
    </message>
    <message>
        <source>Step {number}: drafted, and accepted by the target</source>
        <translation>Schritt {number}: entworfen und vom Zielmodell angenommen</translation>
    </message>
    <message>
        <source>Thinking… {length}</source>
        <translation>Denkt nach… {length}</translation>
    </message>
    <message>
        <source>Thought for about {time} · {length}</source>
        <translation>Etwa {time} nachgedacht · {length}</translation>
    </message>
    <message>
        <source>Thoughts of the model</source>
        <translation>Gedanken des Modells</translation>
    </message>
    <message>
        <source>Thoughts of {model}</source>
        <translation>Gedanken von {model}</translation>
    </message>
    <message>
        <source>Thoughts · {length}</source>
        <translation>Gedanken · {length}</translation>
    </message>
    <message>
        <source>Tokens per second while writing; reading the prompt is left out.</source>
        <translation>Token pro Sekunde beim Schreiben, ohne das Lesen des Prompts.</translation>
    </message>
    <message>
        <source>Version after</source>
        <translation>Nächste Version</translation>
    </message>
    <message>
        <source>Version before</source>
        <translation>Vorige Version</translation>
    </message>
    <message>
        <source>Version {place} of {count}</source>
        <translation>Version {place} von {count}</translation>
    </message>
    <message>
        <source>Waiting for the engine…</source>
        <translation>Wartet auf die Engine…</translation>
    </message>
    <message>
        <source>Write this reply again</source>
        <translation>Diese Antwort neu schreiben</translation>
    </message>
    <message>
        <source>Your prompt</source>
        <translation>Ihr Prompt</translation>
    </message>
    <message>
        <source>complete</source>
        <translation>vollständig</translation>
    </message>
    <message>
        <source>context is full</source>
        <translation>Kontext ist voll</translation>
    </message>
    <message>
        <source>ended by an error</source>
        <translation>durch einen Fehler beendet</translation>
    </message>
    <message>
        <source>first token after {time}</source>
        <translation>erstes Token nach {time}</translation>
    </message>
    <message>
        <source>length limit reached</source>
        <translation>Längengrenze erreicht</translation>
    </message>
    <message>
        <source>mixed</source>
        <translation>gemischt</translation>
    </message>
    <message>
        <source>plain</source>
        <translation>einfach</translation>
    </message>
    <message>
        <source>stopped by you</source>
        <translation>von Ihnen gestoppt</translation>
    </message>
    <message>
        <source>text</source>
        <translation>Text</translation>
    </message>
    <message numerus="yes">
        <source>{count} tokens</source>
        <translation>
            <numerusform>{count} Token</numerusform>
            <numerusform>{count} Token</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} words</source>
        <translation>
            <numerusform>{count} Wort</numerusform>
            <numerusform>{count} Wörter</numerusform>
        </translation>
    </message>
    <message>
        <source>{name}, part {number}</source>
        <translation>{name}, Teil {number}</translation>
    </message>
    <message>
        <source>{number} ms</source>
        <translation>{number} ms</translation>
    </message>
    <message>
        <source>{number} s</source>
        <translation>{number} s</translation>
    </message>
    <message>
        <source>{number} tokens/s</source>
        <translation>{number} Token/s</translation>
    </message>
</context>
<context>
    <name>Settings</name>
    <message>
        <source> min</source>
        <translation> min</translation>
    </message>
    <message>
        <source> pt</source>
        <translation> pt</translation>
    </message>
    <message>
        <source>0 (greedy)</source>
        <translation>0 (greedy)</translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time; higher is freer.</source>
        <translation>0 nimmt jedes Mal das wahrscheinlichste Token; höher ist freier.</translation>
    </message>
    <message>
        <source>Above 1 makes what was said less likely; 1 is off.</source>
        <translation>Über 1 wird schon Gesagtes unwahrscheinlicher; 1 ist aus.</translation>
    </message>
    <message>
        <source>An unloaded model comes back with the next prompt.</source>
        <translation>Ein entladenes Modell kommt mit dem nächsten Prompt zurück.</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>Darstellung</translation>
    </message>
    <message>
        <source>As the system</source>
        <translation>Wie das System</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>Automatisch</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>Schließen</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>Dunkel</translation>
    </message>
    <message>
        <source>Depth</source>
        <translation>Tiefe</translation>
    </message>
    <message>
        <source>Different each time</source>
        <translation>Jedes Mal anders</translation>
    </message>
    <message>
        <source>Draft tree</source>
        <translation>Entwurfsbaum</translation>
    </message>
    <message>
        <source>Drops tokens below this share of the likeliest one's probability; 0 is off.</source>
        <translation>Lässt Token weg, die unter diesem Anteil der Wahrscheinlichkeit des wahrscheinlichsten liegen; 0 ist aus.</translation>
    </message>
    <message>
        <source>Eyrie speaks it when it is started the next time.</source>
        <translation>Eyrie spricht sie ab dem nächsten Start.</translation>
    </message>
    <message>
        <source>Follow the system</source>
        <translation>Wie das System</translation>
    </message>
    <message>
        <source>Font size</source>
        <translation>Schriftgröße</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation>Frequency Penalty</translation>
    </message>
    <message>
        <source>Gives the GPU back when nothing was asked for so long.</source>
        <translation>Gibt die GPU zurück, wenn so lange nichts gefragt wurde.</translation>
    </message>
    <message>
        <source>How far the EAGLE head guesses ahead: changes the speed, not what the model would choose.</source>
        <translation>Wie weit der EAGLE-Head vorausvermutet: ändert die Geschwindigkeit, nicht, was das Modell wählen würde.</translation>
    </message>
    <message>
        <source>Keeps the likeliest tokens that together have this probability.</source>
        <translation>Behält die wahrscheinlichsten Token, die zusammen diese Wahrscheinlichkeit haben.</translation>
    </message>
    <message>
        <source>Keeps this many of the likeliest tokens; 0 switches the filter off.</source>
        <translation>Behält so viele der wahrscheinlichsten Token; 0 schaltet den Filter aus.</translation>
    </message>
    <message>
        <source>Language</source>
        <translation>Sprache</translation>
    </message>
    <message>
        <source>Levels below the root.</source>
        <translation>Ebenen unter der Wurzel.</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>Hell</translation>
    </message>
    <message>
        <source>Longest reply (tokens)</source>
        <translation>Längste Antwort (Token)</translation>
    </message>
    <message>
        <source>Mark accepted draft tokens in replies</source>
        <translation>Angenommene Entwurfstoken in Antworten markieren</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>Speicher</translation>
    </message>
    <message>
        <source>Min-p</source>
        <translation>Min-p</translation>
    </message>
    <message>
        <source>Never</source>
        <translation>Nie</translation>
    </message>
    <message>
        <source>No repeat of</source>
        <translation>Keine Wiederholung von</translation>
    </message>
    <message>
        <source>Nodes</source>
        <translation>Knoten</translation>
    </message>
    <message>
        <source>Own value</source>
        <translation>Eigener Wert</translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation>Presence Penalty</translation>
    </message>
    <message>
        <source>Reduce motion: show new text and trees a few times a second</source>
        <translation>Bewegung verringern: neuen Text und Bäume nur einige Male pro Sekunde zeigen</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation>Repetition Penalty</translation>
    </message>
    <message>
        <source>Replies</source>
        <translation>Antworten</translation>
    </message>
    <message>
        <source>Restore defaults</source>
        <translation>Standardwerte wiederherstellen</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>Seed</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>Einstellungen</translation>
    </message>
    <message>
        <source>So many tokens in a row never come twice; 0 is off.</source>
        <translation>So viele Token hintereinander kommen nie zweimal vor; 0 ist aus.</translation>
    </message>
    <message>
        <source>Some settings were not valid and have their default again: {names}.</source>
        <translation>Einige Einstellungen waren ungültig und haben wieder ihren Standardwert: {names}.</translation>
    </message>
    <message>
        <source>Taken from tokens that the reply has already; 0 is off.</source>
        <translation>Wird Token abgezogen, die in der Antwort schon vorkommen; 0 ist aus.</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>Temperatur</translation>
    </message>
    <message>
        <source>The old file is kept as {file}.</source>
        <translation>Die alte Datei bleibt als {file} erhalten.</translation>
    </message>
    <message>
        <source>The same for each time that it has them; 0 is off.</source>
        <translation>Dasselbe für jedes Mal, dass sie darin vorkommen; 0 ist aus.</translation>
    </message>
    <message>
        <source>The same seed and settings give the same reply again.</source>
        <translation>Derselbe Seed und dieselben Einstellungen ergeben wieder dieselbe Antwort.</translation>
    </message>
    <message>
        <source>The settings could not be saved: {error}.</source>
        <translation>Die Einstellungen konnten nicht gespeichert werden: {error}.</translation>
    </message>
    <message>
        <source>The settings file could not be read, so the defaults apply.</source>
        <translation>Die Einstellungsdatei konnte nicht gelesen werden, daher gelten die Standardwerte.</translation>
    </message>
    <message>
        <source>The window speaks it once these settings are closed and nothing is being written.</source>
        <translation>Das Fenster spricht sie, sobald diese Einstellungen geschlossen sind und gerade nichts geschrieben wird.</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>Farbschema</translation>
    </message>
    <message>
        <source>Tokens checked in one pass of the target, the root included.</source>
        <translation>Token, die in einem Durchlauf des Zielmodells geprüft werden, die Wurzel eingeschlossen.</translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation>Top-k</translation>
    </message>
    <message>
        <source>Top-p</source>
        <translation>Top-p</translation>
    </message>
    <message>
        <source>Unload after</source>
        <translation>Entladen nach</translation>
    </message>
    <message>
        <source>Unload without use</source>
        <translation>Ohne Nutzung entladen</translation>
    </message>
    <message>
        <source>Used from the next reply on.</source>
        <translation>Gelten ab der nächsten Antwort.</translation>
    </message>
    <message>
        <source>off</source>
        <translation>aus</translation>
    </message>
    <message>
        <source>{setting}: own value</source>
        <translation>{setting}: eigener Wert</translation>
    </message>
    <message>
        <source>{setting}: {choice}</source>
        <translation>{setting}: {choice}</translation>
    </message>
</context>
<context>
    <name>Shortcuts</name>
    <message>
        <source>Command</source>
        <translation>Befehl</translation>
    </message>
    <message>
        <source>Draft tree: first and last step</source>
        <translation>Entwurfsbaum: erster und letzter Schritt</translation>
    </message>
    <message>
        <source>Draft tree: hold and follow</source>
        <translation>Entwurfsbaum: anhalten und folgen</translation>
    </message>
    <message>
        <source>Draft tree: step before, step after</source>
        <translation>Entwurfsbaum: voriger und nächster Schritt</translation>
    </message>
    <message>
        <source>In the parts of the window</source>
        <translation>In den Teilen des Fensters</translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation>Tastenkürzel</translation>
    </message>
    <message>
        <source>Keys</source>
        <translation>Tasten</translation>
    </message>
    <message>
        <source>List of chats: delete</source>
        <translation>Liste der Chats: löschen</translation>
    </message>
    <message>
        <source>New line in the prompt</source>
        <translation>Neue Zeile im Prompt</translation>
    </message>
    <message>
        <source>Send the prompt</source>
        <translation>Prompt senden</translation>
    </message>
</context>
<context>
    <name>Start</name>
    <message>
        <source>Another Eyrie uses this data folder and does not answer. End it, or choose another folder with --data-dir.</source>
        <translation>Ein anderes Eyrie verwendet diesen Datenordner und antwortet nicht. Beenden Sie es, oder wählen Sie mit --data-dir einen anderen Ordner.</translation>
    </message>
    <message>
        <source>Eyrie cannot use its data folder: {error}. Choose another with --data-dir, or free what is in the way.</source>
        <translation>Eyrie kann seinen Datenordner nicht verwenden: {error}. Wählen Sie mit --data-dir einen anderen, oder räumen Sie aus dem Weg, was hindert.</translation>
    </message>
</context>
<context>
    <name>Tool bar</name>
    <message>
        <source>Compare</source>
        <translation>Vergleichen</translation>
    </message>
    <message>
        <source>Draft with {head} (Ctrl+E): changes the speed, not what the model would choose.</source>
        <translation>Mit {head} entwerfen (Strg+E): ändert die Geschwindigkeit, nicht, was das Modell wählen würde.</translation>
    </message>
    <message>
        <source>EAGLE can be switched once a model is loaded.</source>
        <translation>EAGLE lässt sich schalten, sobald ein Modell geladen ist.</translation>
    </message>
    <message>
        <source>EAGLE not available</source>
        <translation>EAGLE nicht verfügbar</translation>
    </message>
    <message>
        <source>The menu beside it has methods that need none.</source>
        <translation>Das Menü daneben enthält Verfahren, die keinen brauchen.</translation>
    </message>
    <message>
        <source>This model has no EAGLE head.</source>
        <translation>Dieses Modell hat keinen EAGLE-Head.</translation>
    </message>
    <message>
        <source>Tools</source>
        <translation>Werkzeuge</translation>
    </message>
    <message>
        <source>{about} (Ctrl+E)</source>
        <translation>{about} (Strg+E)</translation>
    </message>
    <message>
        <source>{method} off</source>
        <translation>{method} aus</translation>
    </message>
    <message>
        <source>{method} on</source>
        <translation>{method} ein</translation>
    </message>
</context>
<context>
    <name>Tour</name>
    <message>
        <source>A small head guesses several words ahead; the model checks all guesses at once. Here you see which it accepted. The reply stays the model's own, it only comes faster.</source>
        <translation>Ein kleiner Head vermutet mehrere Wörter voraus; das Modell prüft alle Vermutungen auf einmal. Hier sehen Sie, welche es angenommen hat. Die Antwort bleibt die des Modells, sie kommt nur schneller.</translation>
    </message>
    <message>
        <source>Done</source>
        <translation>Fertig</translation>
    </message>
    <message>
        <source>EAGLE on and off</source>
        <translation>EAGLE ein und aus</translation>
    </message>
    <message>
        <source>Everything runs on this computer. Enter sends, Esc stops a reply; what came stays.</source>
        <translation>Alles läuft auf diesem Computer. Eingabe sendet, Esc stoppt eine Antwort; was da ist, bleibt.</translation>
    </message>
    <message>
        <source>Next</source>
        <translation>Weiter</translation>
    </message>
    <message>
        <source>Skip</source>
        <translation>Überspringen</translation>
    </message>
    <message>
        <source>Switch the guessing off to see the difference, or compare both side by side.</source>
        <translation>Schalten Sie das Vermuten aus, um den Unterschied zu sehen, oder vergleichen Sie beides nebeneinander.</translation>
    </message>
    <message>
        <source>The draft tree</source>
        <translation>Der Entwurfsbaum</translation>
    </message>
    <message>
        <source>They are kept on this computer as you write. Search in all of them with Ctrl+F; every command is found with Ctrl+K, and ? lists the keys.</source>
        <translation>Sie werden beim Schreiben auf diesem Computer aufbewahrt. Strg+F durchsucht alle; jeder Befehl findet sich mit Strg+K, und ? listet die Tasten auf.</translation>
    </message>
    <message>
        <source>Tour of the window</source>
        <translation>Rundgang durch das Fenster</translation>
    </message>
    <message>
        <source>Write here</source>
        <translation>Hier schreiben</translation>
    </message>
    <message>
        <source>Your chats</source>
        <translation>Ihre Chats</translation>
    </message>
    <message>
        <source>{place} of {stops}</source>
        <translation>{place} von {stops}</translation>
    </message>
</context>
<context>
    <name>Window</name>
    <message>
        <source>Diagnostics copied</source>
        <translation>Diagnosedaten kopiert</translation>
    </message>
    <message>
        <source>Loading…</source>
        <translation>Lädt…</translation>
    </message>
    <message>
        <source>Model unloaded</source>
        <translation>Modell entladen</translation>
    </message>
    <message>
        <source>No model</source>
        <translation>Kein Modell</translation>
    </message>
    <message>
        <source>Ready</source>
        <translation>Bereit</translation>
    </message>
    <message numerus="yes">
        <source>Reply finished, {count} tokens.</source>
        <translation>
            <numerusform>Antwort fertig, {count} Token.</numerusform>
            <numerusform>Antwort fertig, {count} Token.</numerusform>
        </translation>
    </message>
    <message>
        <source>The next reply is drafted that way; this one goes on as it began.</source>
        <translation>Die nächste Antwort wird so entworfen; diese geht weiter, wie sie begann.</translation>
    </message>
    <message>
        <source>Unloaded</source>
        <translation>Entladen</translation>
    </message>
    <message>
        <source>Writing</source>
        <translation>Schreibt</translation>
    </message>
    <message>
        <source>Your prompt is sent as soon as the model is loaded. Esc takes it back.</source>
        <translation>Ihr Prompt wird gesendet, sobald das Modell geladen ist. Esc nimmt ihn zurück.</translation>
    </message>
</context>
<context>
    <name>engine</name>
    <message>
        <source>A guess that the drafter gives less than this gets no guesses of its own; 0.2 to 0.4 are usual, 0 switches it off.</source>
        <translation>Eine Vermutung, der der Entwerfer weniger gibt, bekommt keine eigenen Vermutungen; üblich sind 0,2 bis 0,4, und 0 schaltet es aus.</translation>
    </message>
    <message>
        <source>A guess with this probability always stands under typical acceptance.</source>
        <translation>Eine Vermutung mit dieser Wahrscheinlichkeit besteht bei typischer Annahme immer.</translation>
    </message>
    <message>
        <source>A logit bias names a token that the model does not have.</source>
        <translation>Ein Logit-Bias nennt ein Token, das das Modell nicht hat.</translation>
    </message>
    <message>
        <source>A mixture of experts, where drafting gains little.</source>
        <translation>Eine Mixture of Experts, bei der Entwerfen wenig bringt.</translation>
    </message>
    <message>
        <source>A mixture of experts. Its makers measured acceptance lengths of 3.4 to 5.3 on HumanEval.</source>
        <translation>Eine Mixture of Experts. Ihre Hersteller maßen auf HumanEval Annahmelängen von 3,4 bis 5,3.</translation>
    </message>
    <message>
        <source>A mixture of experts: bitsandbytes does not quantise its experts, so that it needs far more than 24 GB.</source>
        <translation>Eine Mixture of Experts: bitsandbytes quantisiert ihre Experten nicht, sodass sie weit mehr als 24 GB braucht.</translation>
    </message>
    <message>
        <source>A mixture of experts: bitsandbytes does not quantise its experts.</source>
        <translation>Eine Mixture of Experts: bitsandbytes quantisiert ihre Experten nicht.</translation>
    </message>
    <message>
        <source>A network that asks for a login answers with its own page: open any page in a browser. If HF_ENDPOINT is set, check it.</source>
        <translation>Ein Netz, das eine Anmeldung verlangt, antwortet mit seiner eigenen Seite: Öffnen Sie im Browser irgendeine Seite. Ist HF_ENDPOINT gesetzt, prüfen Sie es.</translation>
    </message>
    <message>
        <source>A part of the demo model is damaged: {0} has the SHA-256 {1}… where {2}… is expected.</source>
        <translation>Ein Teil des Demo-Modells ist beschädigt: {0} hat die SHA-256 {1}…, wo {2}… erwartet wird.</translation>
    </message>
    <message>
        <source>A part of the demo model is damaged: {0} has {1} bytes where {2} are expected.</source>
        <translation>Ein Teil des Demo-Modells ist beschädigt: {0} hat {1} Byte, wo {2} erwartet werden.</translation>
    </message>
    <message>
        <source>A part of the demo model is missing: {0}.</source>
        <translation>Ein Teil des Demo-Modells fehlt: {0}.</translation>
    </message>
    <message>
        <source>A small head continues states from three depths of the model; the tree grows where the head is sure.</source>
        <translation>Ein kleiner Head setzt Zustände aus drei Tiefen des Modells fort; der Baum wächst dort, wo der Head sich sicher ist.</translation>
    </message>
    <message>
        <source>A small head continues the model's last state; the tree grows where the head is sure of itself.</source>
        <translation>Ein kleiner Head setzt den letzten Zustand des Modells fort; der Baum wächst dort, wo der Head sich sicher ist.</translation>
    </message>
    <message>
        <source>A small head guesses along a tree of fixed shape. Any EAGLE head can be used, so that the fixed tree can be compared with the growing one.</source>
        <translation>Ein kleiner Head vermutet entlang eines Baums von fester Form. Jeder EAGLE-Head ist verwendbar, sodass sich der feste Baum mit dem wachsenden vergleichen lässt.</translation>
    </message>
    <message>
        <source>A smaller model of the same family writes ahead, and the large one checks.</source>
        <translation>Ein kleineres Modell derselben Familie schreibt voraus, und das große prüft.</translation>
    </message>
    <message>
        <source>AWQ of version “{0}” is not known.</source>
        <translation>AWQ der Version „{0}“ ist nicht bekannt.</translation>
    </message>
    <message>
        <source>Accept its licence on its page (some owners confirm by hand), then try again.</source>
        <translation>Nehmen Sie die Lizenz auf der Seite an (manche Besitzer bestätigen von Hand), und versuchen Sie es dann erneut.</translation>
    </message>
    <message>
        <source>Accept its licence on its page, then enter an access token of your account.</source>
        <translation>Nehmen Sie die Lizenz auf der Seite an, und geben Sie dann ein Zugriffstoken Ihres Kontos ein.</translation>
    </message>
    <message>
        <source>Acceptance</source>
        <translation>Annahme</translation>
    </message>
    <message>
        <source>AngelSlim benchmarks with vLLM, one GPU, a chain of drafts</source>
        <translation>AngelSlim-Benchmarks mit vLLM, eine GPU, eine Kette von Entwürfen</translation>
    </message>
    <message>
        <source>At temperatures above 0, draw guesses from the drafter's own distribution, as published, and verify them by p/q. Off: try its likeliest tokens; a seed's text is then that of plain decoding.</source>
        <translation>Bei Temperaturen über 0 Vermutungen aus der Verteilung des Entwerfers ziehen, wie veröffentlicht, und mit p/q prüfen. Aus: seine wahrscheinlichsten Token versuchen; der Text eines Seeds ist dann der der einfachen Dekodierung.</translation>
    </message>
    <message>
        <source>Branches</source>
        <translation>Zweige</translation>
    </message>
    <message>
        <source>Cancel this download and start it again to get the new version.</source>
        <translation>Brechen Sie diesen Download ab und starten Sie ihn neu, um die neue Version zu erhalten.</translation>
    </message>
    <message>
        <source>Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY, or the system's proxy settings, then start Eyrie again.</source>
        <translation>Prüfen Sie HTTP_PROXY, HTTPS_PROXY und NO_PROXY oder die Proxy-Einstellungen des Systems, und starten Sie Eyrie dann neu.</translation>
    </message>
    <message>
        <source>Check its permissions and its drive, or choose another.</source>
        <translation>Prüfen Sie die Zugriffsrechte und das Laufwerk, oder wählen Sie etwas anderes.</translation>
    </message>
    <message>
        <source>Check its permissions, or choose another cache folder with HF_HUB_CACHE.</source>
        <translation>Prüfen Sie die Rechte, oder wählen Sie mit HF_HUB_CACHE einen anderen Cache-Ordner.</translation>
    </message>
    <message>
        <source>Check that the folder holds a whole model, or download it again.</source>
        <translation>Prüfen Sie, ob der Ordner ein vollständiges Modell enthält, oder laden Sie es erneut herunter.</translation>
    </message>
    <message>
        <source>Check the connection and the proxy settings, or set HF_ENDPOINT to a mirror.</source>
        <translation>Prüfen Sie die Verbindung und die Proxy-Einstellungen, oder setzen Sie HF_ENDPOINT auf einen Spiegelserver.</translation>
    </message>
    <message>
        <source>Check the name. A private repository needs a token that may read it.</source>
        <translation>Prüfen Sie den Namen. Ein privates Repository braucht ein Token, das es lesen darf.</translation>
    </message>
    <message>
        <source>Check the permissions of that folder, or set EYRIE_DATA_DIR to one that can be written.</source>
        <translation>Prüfen Sie die Rechte dieses Ordners, oder setzen Sie EYRIE_DATA_DIR auf einen beschreibbaren.</translation>
    </message>
    <message>
        <source>Check the rights of the token.</source>
        <translation>Prüfen Sie die Rechte des Tokens.</translation>
    </message>
    <message>
        <source>Checking the demo model</source>
        <translation>Das Demo-Modell wird geprüft</translation>
    </message>
    <message>
        <source>Checking the file</source>
        <translation>Die Datei wird geprüft</translation>
    </message>
    <message>
        <source>Checking the head</source>
        <translation>Der Head wird geprüft</translation>
    </message>
    <message>
        <source>Children considered for each node, and nodes expanded at each level.</source>
        <translation>Kinder, die für jeden Knoten erwogen, und Knoten, die auf jeder Ebene erweitert werden.</translation>
    </message>
    <message>
        <source>Choose a .gguf file, or a folder with a model.</source>
        <translation>Wählen Sie eine .gguf-Datei oder einen Ordner mit einem Modell.</translation>
    </message>
    <message>
        <source>Choose a Llama, Mistral, Qwen or Gemma model.</source>
        <translation>Wählen Sie ein Modell von Llama, Mistral, Qwen oder Gemma.</translation>
    </message>
    <message>
        <source>Choose a folder that holds a model, or a .gguf file.</source>
        <translation>Wählen Sie einen Ordner, der ein Modell enthält, oder eine .gguf-Datei.</translation>
    </message>
    <message>
        <source>Choose a folder that holds config.json and model.safetensors.</source>
        <translation>Wählen Sie einen Ordner, der config.json und model.safetensors enthält.</translation>
    </message>
    <message>
        <source>Choose a head made for this model, or chat without one.</source>
        <translation>Wählen Sie einen Head für dieses Modell, oder chatten Sie ohne.</translation>
    </message>
    <message>
        <source>Choose a head made for this model.</source>
        <translation>Wählen Sie einen Head, der für dieses Modell gemacht ist.</translation>
    </message>
    <message>
        <source>Choose a head that reads three layers.</source>
        <translation>Wählen Sie einen Head, der drei Schichten liest.</translation>
    </message>
    <message>
        <source>Choose a model that ships one, or download it again.</source>
        <translation>Wählen Sie ein Modell, das eine mitbringt, oder laden Sie es erneut herunter.</translation>
    </message>
    <message>
        <source>Choose a newer file of this model.</source>
        <translation>Wählen Sie eine neuere Datei dieses Modells.</translation>
    </message>
    <message>
        <source>Choose a version of the model in the safetensors format.</source>
        <translation>Wählen Sie eine Version des Modells im safetensors-Format.</translation>
    </message>
    <message>
        <source>Choose a version of the model that has a tokenizer.json.</source>
        <translation>Wählen Sie eine Version des Modells mit tokenizer.json.</translation>
    </message>
    <message>
        <source>Choose an EAGLE-1, EAGLE-2, EAGLE-3 or Medusa head.</source>
        <translation>Wählen Sie einen EAGLE-1-, EAGLE-2-, EAGLE-3- oder Medusa-Head.</translation>
    </message>
    <message>
        <source>Choose an EAGLE-3 head.</source>
        <translation>Wählen Sie einen EAGLE-3-Head.</translation>
    </message>
    <message>
        <source>Choose an instruction-tuned model (its name often ends in -it, -Instruct or -Chat).</source>
        <translation>Wählen Sie ein auf Anweisungen trainiertes Modell (sein Name endet oft auf -it, -Instruct oder -Chat).</translation>
    </message>
    <message>
        <source>Choose another file of this model, for example Q4_K_M or Q8_0.</source>
        <translation>Wählen Sie eine andere Datei dieses Modells, zum Beispiel Q4_K_M oder Q8_0.</translation>
    </message>
    <message>
        <source>Choose another file of this model, or its safetensors version.</source>
        <translation>Wählen Sie eine andere Datei dieses Modells oder seine safetensors-Version.</translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation>Wählen Sie einen anderen Ordner.</translation>
    </message>
    <message>
        <source>Choose another head.</source>
        <translation>Wählen Sie einen anderen Head.</translation>
    </message>
    <message>
        <source>Choose another head: this variant is not supported.</source>
        <translation>Wählen Sie einen anderen Head: Diese Variante wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>Choose another model or download it again.</source>
        <translation>Wählen Sie ein anderes Modell, oder laden Sie es erneut herunter.</translation>
    </message>
    <message>
        <source>Choose another model.</source>
        <translation>Wählen Sie ein anderes Modell.</translation>
    </message>
    <message>
        <source>Choose another model: Llama, Mistral, Qwen, Gemma, Phi or Mixtral work with EAGLE.</source>
        <translation>Wählen Sie ein anderes Modell: Llama, Mistral, Qwen, Gemma, Phi oder Mixtral arbeiten mit EAGLE.</translation>
    </message>
    <message>
        <source>Choose another one to draft with.</source>
        <translation>Wählen Sie ein anderes zum Entwerfen.</translation>
    </message>
    <message>
        <source>Choose another repository.</source>
        <translation>Wählen Sie ein anderes Repository.</translation>
    </message>
    <message>
        <source>Choose another version of this model, for example the unquantised one.</source>
        <translation>Wählen Sie eine andere Version dieses Modells, zum Beispiel die unquantisierte.</translation>
    </message>
    <message>
        <source>Choose cpu or cuda.</source>
        <translation>Wählen Sie cpu oder cuda.</translation>
    </message>
    <message>
        <source>Choose cuda:0 or cpu.</source>
        <translation>Wählen Sie cuda:0 oder cpu.</translation>
    </message>
    <message>
        <source>Choose heads of version 0.1, which belong to an unchanged model.</source>
        <translation>Wählen Sie Heads der Version 0.1, die zu einem unveränderten Modell gehören.</translation>
    </message>
    <message>
        <source>Choose it again.</source>
        <translation>Wählen Sie erneut.</translation>
    </message>
    <message>
        <source>Choose nf4 for this GPU.</source>
        <translation>Wählen Sie für diese GPU nf4.</translation>
    </message>
    <message>
        <source>Choose one of them, for example {0}.</source>
        <translation>Wählen Sie eine davon, zum Beispiel {0}.</translation>
    </message>
    <message>
        <source>Choose one of {0}.</source>
        <translation>Wählen Sie eines von diesen: {0}.</translation>
    </message>
    <message>
        <source>Choose the folder again.</source>
        <translation>Wählen Sie den Ordner erneut.</translation>
    </message>
    <message>
        <source>Choose the folder that holds config.json.</source>
        <translation>Wählen Sie den Ordner, der config.json enthält.</translation>
    </message>
    <message>
        <source>Choose the head in 16 bits; Eyrie quantises it itself.</source>
        <translation>Wählen Sie den Head in 16 Bit; Eyrie quantisiert ihn selbst.</translation>
    </message>
    <message>
        <source>Choose the safetensors version of this model.</source>
        <translation>Wählen Sie die safetensors-Version dieses Modells.</translation>
    </message>
    <message>
        <source>Close other programs or choose a smaller model.</source>
        <translation>Schließen Sie andere Programme, oder wählen Sie ein kleineres Modell.</translation>
    </message>
    <message>
        <source>Close what uses it and check the permissions of the cache, or delete the folder {0} yourself.</source>
        <translation>Schließen Sie, was es benutzt, und prüfen Sie die Zugriffsrechte des Caches, oder löschen Sie den Ordner {0} selbst.</translation>
    </message>
    <message>
        <source>Compare a shorter reply.</source>
        <translation>Vergleichen Sie eine kürzere Antwort.</translation>
    </message>
    <message>
        <source>Compare with the same model again.</source>
        <translation>Vergleichen Sie noch einmal mit demselben Modell.</translation>
    </message>
    <message>
        <source>Confidence threshold</source>
        <translation>Schwelle der Sicherheit</translation>
    </message>
    <message>
        <source>Converting the tokenizer</source>
        <translation>Der Tokenizer wird umgewandelt</translation>
    </message>
    <message>
        <source>Converting the weights</source>
        <translation>Die Gewichte werden umgewandelt</translation>
    </message>
    <message>
        <source>Correct the file, or delete it.</source>
        <translation>Berichtigen Sie die Datei, oder löschen Sie sie.</translation>
    </message>
    <message>
        <source>Delete that folder and load again.</source>
        <translation>Löschen Sie diesen Ordner und laden Sie erneut.</translation>
    </message>
    <message>
        <source>Delete the file and download it again.</source>
        <translation>Löschen Sie die Datei und laden Sie sie erneut herunter.</translation>
    </message>
    <message>
        <source>Delete the model and download it again.</source>
        <translation>Löschen Sie das Modell und laden Sie es erneut herunter.</translation>
    </message>
    <message>
        <source>Delete the model and download it again; if it stays, the model itself is damaged.</source>
        <translation>Löschen Sie das Modell und laden Sie es erneut herunter; wenn es bleibt, ist das Modell selbst beschädigt.</translation>
    </message>
    <message>
        <source>Delete this file and download it again.</source>
        <translation>Löschen Sie diese Datei und laden Sie sie erneut herunter.</translation>
    </message>
    <message>
        <source>Depth</source>
        <translation>Tiefe</translation>
    </message>
    <message>
        <source>Do not use this file: it may carry a program. Look for a head in safetensors format.</source>
        <translation>Verwenden Sie diese Datei nicht: Sie kann ein Programm enthalten. Suchen Sie einen Head im safetensors-Format.</translation>
    </message>
    <message>
        <source>Do not use this file; choose a version of the model in the safetensors format.</source>
        <translation>Verwenden Sie diese Datei nicht; wählen Sie eine Version des Modells im safetensors-Format.</translation>
    </message>
    <message>
        <source>Do not use this model.</source>
        <translation>Verwenden Sie dieses Modell nicht.</translation>
    </message>
    <message>
        <source>Download the file first.</source>
        <translation>Laden Sie zuerst die Datei herunter.</translation>
    </message>
    <message>
        <source>Download the head again or choose another.</source>
        <translation>Laden Sie den Head erneut herunter, oder wählen Sie einen anderen.</translation>
    </message>
    <message>
        <source>Download the head again, or choose one whose config.json belongs to its weights.</source>
        <translation>Laden Sie den Head erneut herunter, oder wählen Sie einen, dessen config.json zu seinen Gewichten gehört.</translation>
    </message>
    <message>
        <source>Download the head again.</source>
        <translation>Laden Sie den Head erneut herunter.</translation>
    </message>
    <message>
        <source>Download the model again.</source>
        <translation>Laden Sie das Modell erneut herunter.</translation>
    </message>
    <message>
        <source>Downloads keep what has arrived and go on once it is asked something again.</source>
        <translation>Downloads behalten, was angekommen ist, und gehen weiter, sobald er wieder etwas gefragt wird.</translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation>Entwurfsmodell</translation>
    </message>
    <message>
        <source>Drafting pauses, because it loses.</source>
        <translation>Das Entwerfen pausiert, weil es bremst.</translation>
    </message>
    <message>
        <source>Draw the guesses</source>
        <translation>Vermutungen auslosen</translation>
    </message>
    <message>
        <source>EAGLE was not asked for.</source>
        <translation>EAGLE war nicht verlangt.</translation>
    </message>
    <message>
        <source>EAGLE works with {0}.</source>
        <translation>EAGLE arbeitet mit {0}.</translation>
    </message>
    <message>
        <source>EAGLE-1</source>
        <translation>EAGLE-1</translation>
    </message>
    <message>
        <source>EAGLE-2 paper, table 1 (mean of 6 tasks, greedy, with the dynamic tree)</source>
        <translation>EAGLE-2-Aufsatz, Tabelle 1 (Mittel aus 6 Aufgaben, greedy, mit dem dynamischen Baum)</translation>
    </message>
    <message>
        <source>EAGLE-3 paper, table 1 (mean of 5 tasks, greedy, one GPU, against plain transformers)</source>
        <translation>EAGLE-3-Aufsatz, Tabelle 1 (Mittel aus 5 Aufgaben, greedy, eine GPU, gegen einfaches transformers)</translation>
    </message>
    <message>
        <source>EAGLE-3 paper, table 1, row EAGLE-2 (mean of 5 tasks, greedy)</source>
        <translation>EAGLE-3-Aufsatz, Tabelle 1, Zeile EAGLE-2 (Mittel aus 5 Aufgaben, greedy)</translation>
    </message>
    <message>
        <source>Enter another token, or run “hf auth login” again.</source>
        <translation>Geben Sie ein anderes Token ein, oder führen Sie „hf auth login“ erneut aus.</translation>
    </message>
    <message>
        <source>Explain in a few sentences why the sky is blue.</source>
        <translation>Erkläre in einigen Sätzen, warum der Himmel blau ist.</translation>
    </message>
    <message>
        <source>Eyrie ended while this reply was written.</source>
        <translation>Eyrie wurde beendet, während diese Antwort geschrieben wurde.</translation>
    </message>
    <message>
        <source>Five heads with an output table each.</source>
        <translation>Fünf Heads mit je einer Ausgabetabelle.</translation>
    </message>
    <message>
        <source>Free some space, or set EYRIE_DATA_DIR to a folder on another disk.</source>
        <translation>Schaffen Sie Platz, oder setzen Sie EYRIE_DATA_DIR auf einen Ordner auf einem anderen Datenträger.</translation>
    </message>
    <message>
        <source>Free some space, then resume the download, or choose a cache folder on another disk with HF_HUB_CACHE.</source>
        <translation>Schaffen Sie Platz, und setzen Sie dann den Download fort, oder wählen Sie mit HF_HUB_CACHE einen Cache-Ordner auf einem anderen Datenträger.</translation>
    </message>
    <message>
        <source>Free some space, then resume the download.</source>
        <translation>Schaffen Sie Platz, und setzen Sie dann den Download fort.</translation>
    </message>
    <message>
        <source>Free space or change its permissions, or set {0} to a folder that can be written.</source>
        <translation>Schaffen Sie Platz oder ändern Sie seine Rechte, oder setzen Sie {0} auf einen beschreibbaren Ordner.</translation>
    </message>
    <message>
        <source>From {0} steps: {1} tokens in {2} ms a step, {3}× plain decoding.</source>
        <translation>Aus {0} Schritten: {1} Token in {2} ms je Schritt, {3}× einfache Dekodierung.</translation>
    </message>
    <message>
        <source>Future positions that each pass fills.</source>
        <translation>Künftige Positionen, die jeder Durchlauf füllt.</translation>
    </message>
    <message>
        <source>Guesses</source>
        <translation>Vermutungen</translation>
    </message>
    <message>
        <source>Guesses after each guess: 1 makes a chain, more a tree.</source>
        <translation>Vermutungen nach jeder Vermutung: 1 ergibt eine Kette, mehr einen Baum.</translation>
    </message>
    <message>
        <source>Guesses that the text goes on as it did when its last words stood here before. Needs no second model, and helps where a reply repeats its prompt.</source>
        <translation>Vermutet, dass der Text so weitergeht wie dort, wo seine letzten Wörter schon einmal standen. Braucht kein zweites Modell und hilft, wo eine Antwort ihren Prompt wiederholt.</translation>
    </message>
    <message>
        <source>HF_ENDPOINT is “{0}”, which is no address of a hub.</source>
        <translation>HF_ENDPOINT ist „{0}“, was keine Adresse eines Hubs ist.</translation>
    </message>
    <message>
        <source>How many different continuations are tried at once, the newest first.</source>
        <translation>Wie viele verschiedene Fortsetzungen zugleich versucht werden, die neuesten zuerst.</translation>
    </message>
    <message>
        <source>In the token's settings, tick “Read access to contents of all public gated repos you can access”, or use another token.</source>
        <translation>Setzen Sie in den Einstellungen des Tokens das Häkchen bei „Read access to contents of all public gated repos you can access“, oder verwenden Sie ein anderes Token.</translation>
    </message>
    <message>
        <source>Install or update the NVIDIA driver, or choose the device cpu.</source>
        <translation>Installieren oder aktualisieren Sie den NVIDIA-Treiber, oder wählen Sie das Gerät cpu.</translation>
    </message>
    <message>
        <source>It could not be checked whether this head fits.</source>
        <translation>Ob dieser Head passt, konnte nicht geprüft werden.</translation>
    </message>
    <message>
        <source>It does not say which layers it taps, and the usual ones do not exist in {0} layers.</source>
        <translation>Er sagt nicht, welche Schichten er anzapft, und die üblichen gibt es bei {0} Schichten nicht.</translation>
    </message>
    <message>
        <source>It has none at all.</source>
        <translation>Es hat überhaupt keine.</translation>
    </message>
    <message>
        <source>It must be a number.</source>
        <translation>Es muss eine Zahl sein.</translation>
    </message>
    <message>
        <source>It must be a text.</source>
        <translation>Es muss ein Text sein.</translation>
    </message>
    <message>
        <source>It must be a whole number.</source>
        <translation>Es muss eine ganze Zahl sein.</translation>
    </message>
    <message>
        <source>It must be between {0} and {1}.</source>
        <translation>Es muss zwischen {0} und {1} liegen.</translation>
    </message>
    <message>
        <source>It must be on or off.</source>
        <translation>Es muss ein oder aus sein.</translation>
    </message>
    <message>
        <source>It must be one of {0}.</source>
        <translation>Es muss eines von diesen sein: {0}.</translation>
    </message>
    <message>
        <source>It must be {0}.</source>
        <translation>Es muss {0} sein.</translation>
    </message>
    <message>
        <source>It needs Medusa heads. Choose some that were made for this model.</source>
        <translation>Es braucht Medusa-Heads. Wählen Sie welche, die für dieses Modell gemacht sind.</translation>
    </message>
    <message>
        <source>It needs a smaller model with the same vocabulary to draft with.</source>
        <translation>Es braucht ein kleineres Modell mit demselben Vokabular zum Entwerfen.</translation>
    </message>
    <message>
        <source>It needs an EAGLE head. Choose one for this model.</source>
        <translation>Es braucht einen EAGLE-Head. Wählen Sie einen für dieses Modell.</translation>
    </message>
    <message>
        <source>It needs embeddings of width {0}, this model's have {1}, and it brings none.</source>
        <translation>Er braucht Embeddings der Breite {0}, die dieses Modells haben {1}, und er bringt keine mit.</translation>
    </message>
    <message>
        <source>It runs plainly, through transformers.</source>
        <translation>Es läuft einfach, über transformers.</translation>
    </message>
    <message>
        <source>It taps layer {0}, the model has {1} layers.</source>
        <translation>Er zapft Schicht {0} an, das Modell hat {1} Schichten.</translation>
    </message>
    <message>
        <source>It was damaged before it was put there: choose another repository or revision.</source>
        <translation>Sie war schon beschädigt, als sie dort abgelegt wurde: Wählen Sie ein anderes Repository oder eine andere Revision.</translation>
    </message>
    <message>
        <source>It was made for a vocabulary of {0} tokens, this model has {1}.</source>
        <translation>Er wurde für ein Vokabular von {0} Token gemacht, dieses Modell hat {1}.</translation>
    </message>
    <message>
        <source>It was made for hidden size {0}, this model has {1}.</source>
        <translation>Er wurde für die Zustandsbreite {0} gemacht, dieses Modell hat {1}.</translation>
    </message>
    <message>
        <source>It was made for {0}.</source>
        <translation>Er wurde für {0} gemacht.</translation>
    </message>
    <message>
        <source>Its configuration names the outputs of layers 1, 11 and 21.</source>
        <translation>Seine Konfiguration nennt die Ausgaben der Schichten 1, 11 und 21.</translation>
    </message>
    <message>
        <source>Its features are normed before the residual sum; its own configuration says so.</source>
        <translation>Seine Merkmale werden vor der Residuensumme normiert; so sagt es seine eigene Konfiguration.</translation>
    </message>
    <message>
        <source>Its files cannot be understood ({0}).</source>
        <translation>Seine Dateien sind nicht zu verstehen ({0}).</translation>
    </message>
    <message>
        <source>Its fusion layer has no bias.</source>
        <translation>Seine Fusionsschicht hat keinen Bias.</translation>
    </message>
    <message>
        <source>Its size is not known.</source>
        <translation>Seine Größe ist nicht bekannt.</translation>
    </message>
    <message>
        <source>Keys and values take half a megabyte a token: no grouped queries.</source>
        <translation>Schlüssel und Werte brauchen ein halbes Megabyte je Token: keine gruppierten Queries.</translation>
    </message>
    <message>
        <source>Leave out --quant.</source>
        <translation>Lassen Sie --quant weg.</translation>
    </message>
    <message>
        <source>Length of the n-grams that are collected and tried; the window is one less deep.</source>
        <translation>Länge der N-Gramme, die gesammelt und versucht werden; das Fenster ist um eins weniger tief.</translation>
    </message>
    <message>
        <source>Let the download finish or cancel it, then delete the model.</source>
        <translation>Lassen Sie den Download fertig werden, oder brechen Sie ihn ab, und löschen Sie dann das Modell.</translation>
    </message>
    <message>
        <source>Levels of guesses below the root.</source>
        <translation>Ebenen von Vermutungen unter der Wurzel.</translation>
    </message>
    <message>
        <source>Load a model first.</source>
        <translation>Laden Sie zuerst ein Modell.</translation>
    </message>
    <message>
        <source>Load the model again to start over.</source>
        <translation>Laden Sie das Modell erneut, um von vorn zu beginnen.</translation>
    </message>
    <message>
        <source>Loading the EAGLE head</source>
        <translation>Der EAGLE-Head wird geladen</translation>
    </message>
    <message>
        <source>Loading the draft model</source>
        <translation>Das Entwurfsmodell wird geladen</translation>
    </message>
    <message>
        <source>Loading the model</source>
        <translation>Das Modell wird geladen</translation>
    </message>
    <message>
        <source>Loading the weights</source>
        <translation>Die Gewichte werden geladen</translation>
    </message>
    <message>
        <source>Loading {0} through transformers</source>
        <translation>{0} wird über transformers geladen</translation>
    </message>
    <message>
        <source>Longest match</source>
        <translation>Längste Übereinstimmung</translation>
    </message>
    <message>
        <source>Look at the list of its files.</source>
        <translation>Sehen Sie in der Liste der Dateien nach.</translation>
    </message>
    <message>
        <source>Lookahead</source>
        <translation>Lookahead</translation>
    </message>
    <message>
        <source>Lossless: what the model would have said. Typical: also what it finds likely enough; faster, but the replies are no longer the model's own.</source>
        <translation>Verlustfrei (lossless): was das Modell gesagt hätte. Typisch (typical): auch, was es wahrscheinlich genug findet; schneller, aber die Antworten sind nicht mehr die des Modells.</translation>
    </message>
    <message>
        <source>Matches of fewer tokens are not used.</source>
        <translation>Übereinstimmungen mit weniger Token werden nicht verwendet.</translation>
    </message>
    <message>
        <source>Measuring how to read the EAGLE head</source>
        <translation>Es wird gemessen, wie der EAGLE-Head zu lesen ist</translation>
    </message>
    <message>
        <source>Measuring this machine</source>
        <translation>Dieser Rechner wird vermessen</translation>
    </message>
    <message>
        <source>Medusa</source>
        <translation>Medusa</translation>
    </message>
    <message>
        <source>Medusa heads do not say their size in their config.</source>
        <translation>Medusa-Heads nennen ihre Größe nicht in ihrer Konfiguration.</translation>
    </message>
    <message>
        <source>N-gram</source>
        <translation>N-Gramm</translation>
    </message>
    <message>
        <source>N-grams tried in one pass.</source>
        <translation>N-Gramme, die in einem Durchlauf versucht werden.</translation>
    </message>
    <message>
        <source>Name five fruits and a use of each.</source>
        <translation>Nenne fünf Früchte und je eine Verwendung.</translation>
    </message>
    <message>
        <source>Name {0}, or write paths of ranks such as [[0], [1], [0, 0]].</source>
        <translation>Nennen Sie {0}, oder schreiben Sie Pfade von Rängen wie [[0], [1], [0, 0]].</translation>
    </message>
    <message>
        <source>Names look like owner/model.</source>
        <translation>Namen sehen aus wie Besitzer/Modell.</translation>
    </message>
    <message>
        <source>Needs bfloat16. Trained on English; users measured an acceptance length of only 2.14.</source>
        <translation>Braucht bfloat16. Auf Englisch trainiert; Nutzer maßen eine Annahmelänge von nur 2,14.</translation>
    </message>
    <message>
        <source>Needs {0}{1} GB; {2} GB of {3} can be used.</source>
        <translation>Braucht {0}{1} GB; {2} GB von {3} sind nutzbar.</translation>
    </message>
    <message>
        <source>Needs {0}{1} of {2} GB that can be used; {3} GB stay free.</source>
        <translation>Braucht {0}{1} von {2} GB, die nutzbar sind; {3} GB bleiben frei.</translation>
    </message>
    <message>
        <source>No EAGLE head was chosen for this model. Choose one to switch EAGLE on.</source>
        <translation>Für dieses Modell wurde kein EAGLE-Head gewählt. Wählen Sie einen, um EAGLE einzuschalten.</translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation>Es ist kein Modell geladen.</translation>
    </message>
    <message>
        <source>Nodes</source>
        <translation>Knoten</translation>
    </message>
    <message>
        <source>Not by EAGLE's authors.</source>
        <translation>Nicht von den Autoren von EAGLE.</translation>
    </message>
    <message>
        <source>Nothing is adapted. The sizes to begin with: {0}.</source>
        <translation>Nichts wird angepasst. Die Anfangsgrößen: {0}.</translation>
    </message>
    <message>
        <source>Only http:// and https:// proxies are understood.</source>
        <translation>Nur Proxys mit http:// und https:// werden verstanden.</translation>
    </message>
    <message>
        <source>Packing the weights</source>
        <translation>Die Gewichte werden gepackt</translation>
    </message>
    <message>
        <source>Plain decoding</source>
        <translation>Einfache Dekodierung</translation>
    </message>
    <message>
        <source>Preparing the model was stopped.</source>
        <translation>Die Vorbereitung des Modells wurde angehalten.</translation>
    </message>
    <message>
        <source>Prompt lookup</source>
        <translation>Prompt Lookup</translation>
    </message>
    <message>
        <source>Put all its parts into the same folder, then choose it again.</source>
        <translation>Legen Sie alle Teile in denselben Ordner, und wählen Sie die Datei dann erneut.</translation>
    </message>
    <message>
        <source>Quantising the weights (once)</source>
        <translation>Die Gewichte werden quantisiert (einmalig)</translation>
    </message>
    <message>
        <source>Reading the tokenizer</source>
        <translation>Der Tokenizer wird gelesen</translation>
    </message>
    <message>
        <source>Reading the weights</source>
        <translation>Die Gewichte werden gelesen</translation>
    </message>
    <message>
        <source>Refresh the list.</source>
        <translation>Aktualisieren Sie die Liste.</translation>
    </message>
    <message>
        <source>Restart the engine and write the reply again.</source>
        <translation>Starten Sie die Engine neu und lassen Sie die Antwort neu schreiben.</translation>
    </message>
    <message>
        <source>Resume the download to fetch it anew, or cancel it.</source>
        <translation>Setzen Sie den Download fort, um sie neu zu holen, oder brechen Sie ihn ab.</translation>
    </message>
    <message>
        <source>Row-wise int8 is a format for CPUs.</source>
        <translation>Zeilenweises int8 ist ein Format für CPUs.</translation>
    </message>
    <message>
        <source>Rows verified in one pass of the target, root included.</source>
        <translation>Zeilen, die in einem Durchlauf des Zielmodells geprüft werden, die Wurzel eingeschlossen.</translation>
    </message>
    <message>
        <source>Run Eyrie's set-up again on a machine with an NVIDIA GPU, or choose the device cpu.</source>
        <translation>Führen Sie die Einrichtung von Eyrie auf einem Rechner mit NVIDIA-GPU erneut aus, oder wählen Sie das Gerät cpu.</translation>
    </message>
    <message>
        <source>Run `git lfs pull` in that folder, or download the model in Eyrie.</source>
        <translation>Führen Sie in diesem Ordner `git lfs pull` aus, oder laden Sie das Modell in Eyrie herunter.</translation>
    </message>
    <message>
        <source>Run `python packaging/bootstrap.py --repair` in the folder of Eyrie to install it again.</source>
        <translation>Führen Sie im Ordner von Eyrie `python packaging/bootstrap.py --repair` aus, um es neu zu installieren.</translation>
    </message>
    <message>
        <source>Run `python packaging/bootstrap.py` in the folder of Eyrie to install it.</source>
        <translation>Führen Sie im Ordner von Eyrie `python packaging/bootstrap.py` aus, um es zu installieren.</translation>
    </message>
    <message>
        <source>Scales the threshold down where the model is unsure, under typical acceptance.</source>
        <translation>Senkt bei typischer Annahme die Schwelle dort, wo das Modell unsicher ist.</translation>
    </message>
    <message>
        <source>Set it to one such as https://huggingface.co, or unset it; then start Eyrie again.</source>
        <translation>Setzen Sie es auf eine Adresse wie https://huggingface.co oder entfernen Sie es; starten Sie Eyrie dann neu.</translation>
    </message>
    <message>
        <source>Several heads guess the next positions all at once; a fixed tree combines their likeliest tokens.</source>
        <translation>Mehrere Heads vermuten die nächsten Positionen alle zugleich; ein fester Baum verbindet ihre wahrscheinlichsten Token.</translation>
    </message>
    <message>
        <source>Shorten the message, or start a new chat.</source>
        <translation>Kürzen Sie die Nachricht, oder beginnen Sie einen neuen Chat.</translation>
    </message>
    <message>
        <source>Shortest match</source>
        <translation>Kürzeste Übereinstimmung</translation>
    </message>
    <message>
        <source>Small and free; the best pair to begin with.</source>
        <translation>Klein und frei; das beste Paar für den Anfang.</translation>
    </message>
    <message>
        <source>Spec-Bench, A100 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench, A100 (gesamt, Batch 1, greedy, 16 Bit)</translation>
    </message>
    <message>
        <source>Spec-Bench, A100, with the dynamic tree of EAGLE-2 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench, A100, mit dem dynamischen Baum von EAGLE-2 (gesamt, Batch 1, greedy, 16 Bit)</translation>
    </message>
    <message>
        <source>Spec-Bench, RTX 3090 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench, RTX 3090 (gesamt, Batch 1, greedy, 16 Bit)</translation>
    </message>
    <message>
        <source>Spec-Bench, RTX 3090, with the dynamic tree of EAGLE-2 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench, RTX 3090, mit dem dynamischen Baum von EAGLE-2 (gesamt, Batch 1, greedy, 16 Bit)</translation>
    </message>
    <message>
        <source>SpecBundle, MT-bench at batch 1 with a chain of 3, 190 to 404 tokens/s</source>
        <translation>SpecBundle, MT-bench bei Batch 1 mit einer Kette von 3, 190 bis 404 Token/s</translation>
    </message>
    <message>
        <source>Start a new chat or shorten the messages.</source>
        <translation>Beginnen Sie einen neuen Chat, oder kürzen Sie die Nachrichten.</translation>
    </message>
    <message>
        <source>Start a new chat, or take the system prompt out. If it happens again, use another model.</source>
        <translation>Beginnen Sie einen neuen Chat, oder entfernen Sie den System-Prompt. Wenn es wieder vorkommt, verwenden Sie ein anderes Modell.</translation>
    </message>
    <message>
        <source>The architecture “{0}” is not one that EAGLE runs on here.</source>
        <translation>Auf der Architektur „{0}“ läuft EAGLE hier nicht.</translation>
    </message>
    <message>
        <source>The best of the three on mathematics and code.</source>
        <translation>Der beste der drei bei Mathematik und Code.</translation>
    </message>
    <message>
        <source>The cache does not hold {0} at {1}.</source>
        <translation>Der Cache enthält {0} nicht im Stand {1}.</translation>
    </message>
    <message>
        <source>The catalogue lists it for this model; its files have not been looked at yet.</source>
        <translation>Der Katalog führt ihn für dieses Modell auf; seine Dateien wurden noch nicht angesehen.</translation>
    </message>
    <message>
        <source>The chat template of {0} does not accept this conversation: {1}</source>
        <translation>Die Chat-Vorlage von {0} nimmt diese Unterhaltung nicht an: {1}</translation>
    </message>
    <message>
        <source>The chat template of {0} is broken (line {1}: {2}).</source>
        <translation>Die Chat-Vorlage von {0} ist fehlerhaft (Zeile {1}: {2}).</translation>
    </message>
    <message>
        <source>The context of {0} tokens is full.</source>
        <translation>Der Kontext von {0} Token ist voll.</translation>
    </message>
    <message>
        <source>The device “{0}” is not supported.</source>
        <translation>Das Gerät „{0}“ wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>The disk is too full: {0} must be free for {1}.</source>
        <translation>Der Datenträger ist zu voll: Für {1} müssen {0} frei sein.</translation>
    </message>
    <message>
        <source>The disk with {0} is full.</source>
        <translation>Der Datenträger mit {0} ist voll.</translation>
    </message>
    <message>
        <source>The download failed: {0}: {1}.</source>
        <translation>Der Download ist fehlgeschlagen: {0}: {1}.</translation>
    </message>
    <message>
        <source>The draft model cannot be used.</source>
        <translation>Das Entwurfsmodell kann nicht verwendet werden.</translation>
    </message>
    <message>
        <source>The draft vocabulary has not been verified.</source>
        <translation>Das Entwurfsvokabular wurde nicht geprüft.</translation>
    </message>
    <message>
        <source>The engine failed: {0}: {1}.</source>
        <translation>Die Engine ist fehlgeschlagen: {0}: {1}.</translation>
    </message>
    <message>
        <source>The engine stopped before it got the prompt.</source>
        <translation>Die Engine wurde beendet, bevor sie den Prompt erhielt.</translation>
    </message>
    <message>
        <source>The file counts {0} Medusa heads of {1} blocks, more than make sense.</source>
        <translation>Die Datei zählt {0} Medusa-Heads mit {1} Blöcken, mehr als sinnvoll.</translation>
    </message>
    <message>
        <source>The file holds no whole Medusa head.</source>
        <translation>Die Datei enthält keinen vollständigen Medusa-Head.</translation>
    </message>
    <message>
        <source>The files are incomplete or of another kind of model. {0}</source>
        <translation>Die Dateien sind unvollständig oder von einer anderen Art Modell. {0}</translation>
    </message>
    <message>
        <source>The files do not belong together, or the architecture is another: choose another model.</source>
        <translation>Die Dateien gehören nicht zusammen, oder die Architektur ist eine andere: Wählen Sie ein anderes Modell.</translation>
    </message>
    <message>
        <source>The files do not belong together: delete the model and download it again.</source>
        <translation>Die Dateien gehören nicht zusammen: Löschen Sie das Modell und laden Sie es erneut herunter.</translation>
    </message>
    <message>
        <source>The folder {0} cannot be made ({1}).</source>
        <translation>Der Ordner {0} kann nicht angelegt werden ({1}).</translation>
    </message>
    <message>
        <source>The head has biases in its MLP, which no known format has.</source>
        <translation>Der Head hat Biases in seinem MLP, was kein bekanntes Format hat.</translation>
    </message>
    <message>
        <source>The head is quantised.</source>
        <translation>Der Head ist quantisiert.</translation>
    </message>
    <message>
        <source>The head uses {0} where silu is known.</source>
        <translation>Der Head verwendet {0}, wo silu bekannt ist.</translation>
    </message>
    <message>
        <source>The head was made for {0}, which has the same shape; with another model it drafts worse.</source>
        <translation>Der Head wurde für {0} gemacht, das dieselbe Form hat; mit einem anderen Modell entwirft er schlechter.</translation>
    </message>
    <message>
        <source>The head was trained on Chinese.</source>
        <translation>Der Head wurde auf Chinesisch trainiert.</translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking, which this model does not do: it drafts less well.</source>
        <translation>Der Head wurde an Antworten mit Nachdenken trainiert, was dieses Modell nicht tut: Er entwirft weniger gut.</translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking: leave thinking on, or it drafts less well.</source>
        <translation>Der Head wurde an Antworten mit Nachdenken trainiert: Lassen Sie das Nachdenken an, sonst entwirft er weniger gut.</translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking; where thinking is off it drafts less well.</source>
        <translation>Der Head wurde an Antworten mit Nachdenken trainiert; wo es aus ist, entwirft er weniger gut.</translation>
    </message>
    <message>
        <source>The head was trained on replies without thinking, and this model always thinks: it drafts less well.</source>
        <translation>Der Head wurde an Antworten ohne Nachdenken trainiert, und dieses Modell denkt immer nach: Er entwirft weniger gut.</translation>
    </message>
    <message>
        <source>The head was trained on replies without thinking: switch thinking off, or it drafts less well.</source>
        <translation>Der Head wurde an Antworten ohne Nachdenken trainiert: Schalten Sie das Nachdenken aus, sonst entwirft er weniger gut.</translation>
    </message>
    <message>
        <source>The head was trained on texts of up to {0} tokens; in longer chats it drafts less well.</source>
        <translation>Der Head wurde an Texten bis {0} Token trainiert; in längeren Chats entwirft er weniger gut.</translation>
    </message>
    <message>
        <source>The head's config.json makes no sense: {0} is {1}.</source>
        <translation>Die config.json des Heads ergibt keinen Sinn: {0} ist {1}.</translation>
    </message>
    <message>
        <source>The head's config.json makes no sense: {0}.</source>
        <translation>Die config.json des Heads ergibt keinen Sinn: {0}.</translation>
    </message>
    <message>
        <source>The head's files leave open how to read it. Measured on the model's own replies: {0} ({1} tokens a step, otherwise {2}).</source>
        <translation>Die Dateien des Heads lassen offen, wie er zu lesen ist. An den Antworten des Modells gemessen: {0} ({1} Token je Schritt, sonst {2}).</translation>
    </message>
    <message>
        <source>The head's folder {0} does not exist.</source>
        <translation>Den Ordner {0} des Heads gibt es nicht.</translation>
    </message>
    <message>
        <source>The header of the head's file is damaged.</source>
        <translation>Der Kopf der Datei des Heads ist beschädigt.</translation>
    </message>
    <message>
        <source>The header of {0} is damaged (a gap or overlap at byte {1}).</source>
        <translation>Der Dateikopf von {0} ist beschädigt (Lücke oder Überschneidung bei Byte {1}).</translation>
    </message>
    <message>
        <source>The header of {0} is damaged ({1}).</source>
        <translation>Der Dateikopf von {0} ist beschädigt ({1}).</translation>
    </message>
    <message>
        <source>The hub at {0} cannot be reached ({1}).</source>
        <translation>Der Hub unter {0} ist nicht erreichbar ({1}).</translation>
    </message>
    <message>
        <source>The hub cannot be reached, because {0}.</source>
        <translation>Der Hub ist nicht erreichbar. Grund: {0}.</translation>
    </message>
    <message>
        <source>The hub describes {0} in a way that cannot be used.</source>
        <translation>Der Hub beschreibt {0} auf unbrauchbare Weise.</translation>
    </message>
    <message>
        <source>The hub does not accept the token: it is wrong, or it has expired or been revoked.</source>
        <translation>Der Hub nimmt das Token nicht an: Es ist falsch, abgelaufen oder widerrufen.</translation>
    </message>
    <message>
        <source>The hub has no such {0}: {1}.</source>
        <translation>So etwas hat der Hub nicht ({0}): {1}.</translation>
    </message>
    <message>
        <source>The hub is busy (status {0}).</source>
        <translation>Der Hub ist überlastet (Status {0}).</translation>
    </message>
    <message>
        <source>The hub is not asked, because HF_HUB_OFFLINE is set.</source>
        <translation>Der Hub wird nicht gefragt, weil HF_HUB_OFFLINE gesetzt ist.</translation>
    </message>
    <message>
        <source>The hub refuses access to {0}.</source>
        <translation>Der Hub verweigert den Zugriff auf {0}.</translation>
    </message>
    <message>
        <source>The hub refuses the request for {0} (status {1}).</source>
        <translation>Der Hub verweigert die Anfrage nach {0} (Status {1}).</translation>
    </message>
    <message>
        <source>The hub sends the download to an address that is not encrypted.</source>
        <translation>Der Hub leitet den Download an eine unverschlüsselte Adresse.</translation>
    </message>
    <message>
        <source>The installed torch is the version for CPUs.</source>
        <translation>Das installierte torch ist die Version für CPUs.</translation>
    </message>
    <message>
        <source>The length of n-grams not to repeat is {0}.</source>
        <translation>Die Länge der N-Gramme, die sich nicht wiederholen sollen, ist {0}.</translation>
    </message>
    <message>
        <source>The loaded head is for {0}. Choose an {1} head for this model.</source>
        <translation>Der geladene Head ist für {0}. Wählen Sie für dieses Modell einen {1}-Head.</translation>
    </message>
    <message>
        <source>The machine was busy with something else meanwhile: this is measured again next time.</source>
        <translation>Der Rechner war währenddessen anderweitig beschäftigt: das wird beim nächsten Mal neu gemessen.</translation>
    </message>
    <message>
        <source>The margin was asked of a token that the model does not have.</source>
        <translation>Der Abstand wurde für ein Token erfragt, das das Modell nicht hat.</translation>
    </message>
    <message>
        <source>The model alone, one token at a time: what every other method is measured against.</source>
        <translation>Das Modell allein, Token für Token: woran jedes andere Verfahren gemessen wird.</translation>
    </message>
    <message>
        <source>The model fills a window of future positions beside its own next token and keeps the n-grams that come up. Needs no second model, but many rows a pass.</source>
        <translation>Das Modell füllt neben seinem nächsten Token ein Fenster künftiger Positionen und behält die N-Gramme, die dabei auftauchen. Braucht kein zweites Modell, aber viele Zeilen je Durchlauf.</translation>
    </message>
    <message>
        <source>The model has the tensor {0}{1}, which its config.json does not explain.</source>
        <translation>Das Modell hat den Tensor {0}{1}, den seine config.json nicht erklärt.</translation>
    </message>
    <message>
        <source>The model in {0} lacks the tensor {1}.</source>
        <translation>Dem Modell in {0} fehlt der Tensor {1}.</translation>
    </message>
    <message>
        <source>The model is a mixture of experts, where drafting gains little.</source>
        <translation>Das Modell ist eine Mixture of Experts, bei der Entwerfen wenig bringt.</translation>
    </message>
    <message>
        <source>The model is ready</source>
        <translation>Das Modell ist bereit</translation>
    </message>
    <message>
        <source>The model lacks the tensor {0}.</source>
        <translation>Dem Modell fehlt der Tensor {0}.</translation>
    </message>
    <message>
        <source>The model runs without EAGLE.</source>
        <translation>Das Modell läuft ohne EAGLE.</translation>
    </message>
    <message>
        <source>The model that is loaded now is unloaded first.</source>
        <translation>Das jetzt geladene Modell wird zuerst entladen.</translation>
    </message>
    <message>
        <source>The model's {0} is not supported.</source>
        <translation>Vom Modell wird dies nicht unterstützt: {0}.</translation>
    </message>
    <message>
        <source>The most tokens at the end of the text that are looked for earlier in it.</source>
        <translation>Höchstzahl der Token am Ende des Textes, nach denen weiter vorn gesucht wird.</translation>
    </message>
    <message>
        <source>The official head with the paper's best numbers (5.51 there).</source>
        <translation>Der offizielle Head mit den besten Zahlen des Aufsatzes (dort 5,51).</translation>
    </message>
    <message>
        <source>The official head, for a model that thinks before it answers.</source>
        <translation>Der offizielle Head, für ein Modell, das vor der Antwort nachdenkt.</translation>
    </message>
    <message>
        <source>The official head; trained on texts of up to 2,048 tokens.</source>
        <translation>Der offizielle Head; trainiert an Texten bis 2.048 Token.</translation>
    </message>
    <message>
        <source>The package {0} with the demo model is not installed ({1} is missing).</source>
        <translation>Das Paket {0} mit dem Demo-Modell ist nicht installiert ({1} fehlt).</translation>
    </message>
    <message>
        <source>The part of Eyrie that talks to the hub stopped unexpectedly.</source>
        <translation>Der Teil von Eyrie, der mit dem Hub spricht, wurde unerwartet beendet.</translation>
    </message>
    <message>
        <source>The place is at token {0}, the context holds {1}.</source>
        <translation>Die Stelle liegt bei Token {0}, der Kontext fasst {1}.</translation>
    </message>
    <message>
        <source>The prompt has {0} tokens, the context holds {1}.</source>
        <translation>Der Prompt hat {0} Token, der Kontext fasst {1}.</translation>
    </message>
    <message>
        <source>The prompt is empty.</source>
        <translation>Der Prompt ist leer.</translation>
    </message>
    <message>
        <source>The proxy {0} asks for a name and a password, or does not accept those it was given.</source>
        <translation>Der Proxy {0} verlangt Namen und Passwort oder nimmt die angegebenen nicht an.</translation>
    </message>
    <message>
        <source>The proxy {0} cannot be used: its address is wrong, or it is a SOCKS proxy.</source>
        <translation>Der Proxy {0} kann nicht verwendet werden: Seine Adresse ist falsch, oder es ist ein SOCKS-Proxy.</translation>
    </message>
    <message>
        <source>The proxy {0} does not let anything through to {1} (status {2}).</source>
        <translation>Der Proxy {0} lässt nichts zu {1} durch (Status {2}).</translation>
    </message>
    <message>
        <source>The published tree, or paths of ranks such as [[0], [1], [0, 0]]; its likeliest part is used where nodes or depth allow no more.</source>
        <translation>Der veröffentlichte Baum oder Pfade von Rängen wie [[0], [1], [0, 0]]; wo Knoten oder Tiefe nicht mehr zulassen, wird sein wahrscheinlichster Teil verwendet.</translation>
    </message>
    <message>
        <source>The quantised weights in {0} cannot be read.</source>
        <translation>Die quantisierten Gewichte in {0} können nicht gelesen werden.</translation>
    </message>
    <message>
        <source>The repetition penalty is {0}.</source>
        <translation>Die Repetition Penalty ist {0}.</translation>
    </message>
    <message>
        <source>The reply length is {0} tokens.</source>
        <translation>Die Länge der Antwort ist {0} Token.</translation>
    </message>
    <message>
        <source>The target stays in its own MXFP4.</source>
        <translation>Das Zielmodell bleibt in seinem eigenen MXFP4.</translation>
    </message>
    <message>
        <source>The temperature is {0}.</source>
        <translation>Die Temperatur ist {0}.</translation>
    </message>
    <message>
        <source>The tensor {0} has shape {1} where config.json asks for {2}.</source>
        <translation>Der Tensor {0} hat die Form {1}, wo config.json {2} verlangt.</translation>
    </message>
    <message>
        <source>The tensor {0} has {1} bytes for {2} × {3}.</source>
        <translation>Der Tensor {0} hat {1} Byte für {2} × {3}.</translation>
    </message>
    <message>
        <source>The tensor {0} holds values that are not finite numbers (NaN or infinity).</source>
        <translation>Der Tensor {0} enthält Werte, die keine endlichen Zahlen sind (NaN oder unendlich).</translation>
    </message>
    <message>
        <source>The tensor {0} holds {1}, not numbers of 16 or 32 bits.</source>
        <translation>Der Tensor {0} enthält {1}, keine Zahlen mit 16 oder 32 Bit.</translation>
    </message>
    <message>
        <source>The tensor {0} is both in {1} and in {2}.</source>
        <translation>Der Tensor {0} steht sowohl in {1} als auch in {2}.</translation>
    </message>
    <message>
        <source>The tensor {0} is in two of the head's files.</source>
        <translation>Der Tensor {0} steht in zwei Dateien des Heads.</translation>
    </message>
    <message>
        <source>The tensor {0} of {1} has shape {2} where {3} is expected.</source>
        <translation>Der Tensor {0} von {1} hat die Form {2}, wo {3} erwartet wird.</translation>
    </message>
    <message>
        <source>The tensor {0} of {1} is quantised in an unknown way ({2}).</source>
        <translation>Der Tensor {0} von {1} ist auf unbekannte Weise quantisiert ({2}).</translation>
    </message>
    <message>
        <source>The tensor {0}.absmax or .quant_map has an unexpected size.</source>
        <translation>Der Tensor {0}.absmax oder .quant_map hat eine unerwartete Größe.</translation>
    </message>
    <message>
        <source>The tensor {0}.g_idx has groups of unequal size.</source>
        <translation>Der Tensor {0}.g_idx hat Gruppen ungleicher Größe.</translation>
    </message>
    <message>
        <source>The tensor {0}.weight has shape {1} where config.json asks for {2}.</source>
        <translation>Der Tensor {0}.weight hat die Form {1}, wo config.json {2} verlangt.</translation>
    </message>
    <message>
        <source>The tensor {0}.{1} is damaged ({2}).</source>
        <translation>Der Tensor {0}.{1} ist beschädigt ({2}).</translation>
    </message>
    <message>
        <source>The token holds a space, or a letter that no token has: it was not copied whole, or with more.</source>
        <translation>Das Token enthält ein Leerzeichen oder ein Zeichen, das kein Token hat: Es wurde nicht ganz oder mit etwas anderem zusammen kopiert.</translation>
    </message>
    <message>
        <source>The token may not read gated repositories such as {0}.</source>
        <translation>Das Token darf zugangsbeschränkte Repositorys wie {0} nicht lesen.</translation>
    </message>
    <message>
        <source>The tokenizer in {0} cannot be converted ({1}).</source>
        <translation>Der Tokenizer in {0} lässt sich nicht umwandeln ({1}).</translation>
    </message>
    <message>
        <source>The tokenizer of {0} decodes with {1}, which cannot be shown as it is written.</source>
        <translation>Der Tokenizer von {0} dekodiert mit {1}, was sich beim Schreiben nicht zeigen lässt.</translation>
    </message>
    <message>
        <source>The tree “{0}” makes no sense: {1}.</source>
        <translation>Der Baum „{0}“ ergibt keinen Sinn: {1}.</translation>
    </message>
    <message>
        <source>The {0} is full.</source>
        <translation>Voll: {0}.</translation>
    </message>
    <message>
        <source>There is no GPU {0}; {1} were found.</source>
        <translation>Es gibt keine GPU {0}; gefunden wurden {1}.</translation>
    </message>
    <message>
        <source>There is no file {0}.</source>
        <translation>Es gibt keine Datei {0}.</translation>
    </message>
    <message>
        <source>There is no method “{0}”.</source>
        <translation>Es gibt kein Verfahren „{0}“.</translation>
    </message>
    <message>
        <source>There is no model folder {0}.</source>
        <translation>Es gibt keinen Modellordner {0}.</translation>
    </message>
    <message>
        <source>There is no model folder {0}: it {1}.</source>
        <translation>Es gibt keinen Modellordner {0}: it {1}.</translation>
    </message>
    <message>
        <source>There is no user message to answer.</source>
        <translation>Es gibt keine Nachricht zu beantworten.</translation>
    </message>
    <message>
        <source>These Medusa heads come inside a model that was trained with them (Medusa-2).</source>
        <translation>Diese Medusa-Heads stecken in einem Modell, das mit ihnen trainiert wurde (Medusa-2).</translation>
    </message>
    <message>
        <source>This drafter is of the kind {0}.</source>
        <translation>Dieser Entwerfer ist von der Art {0}.</translation>
    </message>
    <message>
        <source>This failed: {0}.</source>
        <translation>Das ist fehlgeschlagen: {0}.</translation>
    </message>
    <message>
        <source>This head belongs to another model. {0}{1}</source>
        <translation>Dieser Head gehört zu einem anderen Modell. {0}{1}</translation>
    </message>
    <message>
        <source>This head does not say which layers it taps, and the usual ones do not exist in a model of {0}.</source>
        <translation>Dieser Head sagt nicht, welche Schichten er anzapft, und die üblichen gibt es in einem Modell mit {0} nicht.</translation>
    </message>
    <message>
        <source>This head drafts all tokens at once, which is not supported.</source>
        <translation>Dieser Head entwirft alle Token auf einmal, was nicht unterstützt wird.</translation>
    </message>
    <message>
        <source>This head guesses no better than chance for this model: it foresees nothing of the model's own replies. It was made for another model, or its file is damaged. Replies stay right, but they do not get faster: choose another head, or chat without one.</source>
        <translation>Dieser Head rät für dieses Modell nicht besser als der Zufall: Er sieht nichts von den Antworten des Modells voraus. Er wurde für ein anderes Modell gemacht, oder seine Datei ist beschädigt. Die Antworten bleiben richtig, werden aber nicht schneller: Wählen Sie einen anderen Head, oder chatten Sie ohne.</translation>
    </message>
    <message>
        <source>This head has DeepSeek's multi-head latent attention.</source>
        <translation>Dieser Head hat DeepSeeks Multi-Head Latent Attention.</translation>
    </message>
    <message>
        <source>This head reads the model's final state only, a variant of EAGLE-3 that is not supported.</source>
        <translation>Dieser Head liest nur den letzten Zustand des Modells, eine Variante von EAGLE-3, die nicht unterstützt wird.</translation>
    </message>
    <message>
        <source>This head sets {0} to {1}, a variant that is not supported.</source>
        <translation>Dieser Head setzt {0} auf {1}, eine Variante, die nicht unterstützt wird.</translation>
    </message>
    <message>
        <source>This is a {0} drafter, not an EAGLE head.</source>
        <translation>Das ist ein Entwerfer der Art {0}, kein EAGLE-Head.</translation>
    </message>
    <message>
        <source>This is no EAGLE head: it has no attention layer of its own.</source>
        <translation>Das ist kein EAGLE-Head: Er hat keine eigene Attention-Schicht.</translation>
    </message>
    <message>
        <source>This is no EAGLE head: it has several layers, as a whole model has.</source>
        <translation>Das ist kein EAGLE-Head: Er hat mehrere Schichten wie ein ganzes Modell.</translation>
    </message>
    <message>
        <source>This is no EAGLE-3 head: {0} holds a head {1}.</source>
        <translation>Das ist kein EAGLE-3-Head: {0} enthält einen Head {1}.</translation>
    </message>
    <message>
        <source>Token ids are 0 to {0}.</source>
        <translation>Token-IDs gehen von 0 bis {0}.</translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation>Top-k</translation>
    </message>
    <message>
        <source>Tree</source>
        <translation>Baum</translation>
    </message>
    <message>
        <source>Try again in a few minutes.</source>
        <translation>Versuchen Sie es in einigen Minuten erneut.</translation>
    </message>
    <message>
        <source>Try again later, or from another network: something on the way changes the data.</source>
        <translation>Versuchen Sie es später oder aus einem anderen Netz: Etwas auf dem Weg verändert die Daten.</translation>
    </message>
    <message>
        <source>Try again later.</source>
        <translation>Versuchen Sie es später erneut.</translation>
    </message>
    <message>
        <source>Try again.</source>
        <translation>Versuchen Sie es erneut.</translation>
    </message>
    <message>
        <source>Try again; if it stays, report it.</source>
        <translation>Versuchen Sie es erneut; wenn es bleibt, melden Sie es.</translation>
    </message>
    <message>
        <source>Try later.</source>
        <translation>Versuchen Sie es später.</translation>
    </message>
    <message>
        <source>Type a message first.</source>
        <translation>Geben Sie zuerst eine Nachricht ein.</translation>
    </message>
    <message>
        <source>Typical: delta</source>
        <translation>Typisch: Delta</translation>
    </message>
    <message>
        <source>Typical: threshold</source>
        <translation>Typisch: Schwelle</translation>
    </message>
    <message>
        <source>Update the NVIDIA driver, or choose the device cpu.</source>
        <translation>Aktualisieren Sie den NVIDIA-Treiber, oder wählen Sie das Gerät cpu.</translation>
    </message>
    <message>
        <source>Use a model that is already here, or unset HF_HUB_OFFLINE and start Eyrie again.</source>
        <translation>Verwenden Sie ein vorhandenes Modell, oder entfernen Sie HF_HUB_OFFLINE und starten Sie Eyrie neu.</translation>
    </message>
    <message>
        <source>Waiting for another Eyrie that prepares the same model</source>
        <translation>Es wird auf ein anderes Eyrie gewartet, das dasselbe Modell vorbereitet</translation>
    </message>
    <message>
        <source>Weights quantised by {0} are not read here.</source>
        <translation>Mit {0} quantisierte Gewichte werden hier nicht gelesen.</translation>
    </message>
    <message>
        <source>What answers at {0} does not speak as a model hub does.</source>
        <translation>Was unter {0} antwortet, verhält sich nicht wie ein Modell-Hub.</translation>
    </message>
    <message>
        <source>What had come is kept: continue it, or write it again.</source>
        <translation>Was angekommen war, bleibt erhalten: Setzen Sie die Antwort fort, oder lassen Sie sie neu schreiben.</translation>
    </message>
    <message>
        <source>What has arrived is kept. Check {0} and resume the download.</source>
        <translation>Was angekommen ist, bleibt erhalten. Prüfen Sie {0}, und setzen Sie den Download fort.</translation>
    </message>
    <message>
        <source>Window</source>
        <translation>Fenster</translation>
    </message>
    <message>
        <source>Write a Python function that reverses a list.</source>
        <translation>Schreibe eine Python-Funktion, die eine Liste umkehrt.</translation>
    </message>
    <message>
        <source>Write a message and send it.</source>
        <translation>Schreiben und senden Sie eine Nachricht.</translation>
    </message>
    <message>
        <source>Write them into HTTP_PROXY and HTTPS_PROXY (http://name:password@host:port), then start Eyrie again.</source>
        <translation>Schreiben Sie sie in HTTP_PROXY und HTTPS_PROXY (http://name:passwort@host:port), und starten Sie Eyrie dann neu.</translation>
    </message>
    <message>
        <source>Writing into {0} failed ({1}).</source>
        <translation>Schreiben in {0} ist fehlgeschlagen ({1}).</translation>
    </message>
    <message>
        <source>a namespace cannot hold {0}</source>
        <translation>ein Namensraum kann {0} nicht aufnehmen</translation>
    </message>
    <message>
        <source>bitsandbytes, which 4-bit weights need, does not load ({0}: {1}).</source>
        <translation>bitsandbytes, das 4-Bit-Gewichte brauchen, lässt sich nicht laden ({0}: {1}).</translation>
    </message>
    <message>
        <source>config.json lacks or garbles a field: {0}.</source>
        <translation>In config.json fehlt ein Feld oder ist entstellt: {0}.</translation>
    </message>
    <message>
        <source>its author, 147 to 231 tokens/s</source>
        <translation>laut Autor, 147 bis 231 Token/s</translation>
    </message>
    <message>
        <source>its author, 186 to 365 tokens/s on an H200 with SGLang</source>
        <translation>laut Autor, 186 bis 365 Token/s auf einer H200 mit SGLang</translation>
    </message>
    <message>
        <source>torch finds no NVIDIA GPU.</source>
        <translation>torch findet keine NVIDIA-GPU.</translation>
    </message>
    <message>
        <source>transformers cannot load {0} either: {1}</source>
        <translation>Auch transformers kann {0} nicht laden: {1}</translation>
    </message>
    <message>
        <source>{0} arrived damaged: {1}.</source>
        <translation>{0} kam beschädigt an: {1}.</translation>
    </message>
    <message>
        <source>{0} cannot be deleted: its files are in use, or protected.</source>
        <translation>{0} lässt sich nicht löschen: Die Dateien werden benutzt oder sind geschützt.</translation>
    </message>
    <message>
        <source>{0} cannot be deleted: some of its files are missing.</source>
        <translation>{0} lässt sich nicht löschen: Einige Dateien fehlen.</translation>
    </message>
    <message>
        <source>{0} cannot be deleted: {1}.</source>
        <translation>{0} lässt sich nicht löschen: {1}.</translation>
    </message>
    <message>
        <source>{0} cannot be read ({1}).</source>
        <translation>{0} kann nicht gelesen werden ({1}).</translation>
    </message>
    <message>
        <source>{0} cannot be read as JSON: {1}.</source>
        <translation>{0} kann nicht als JSON gelesen werden: {1}.</translation>
    </message>
    <message>
        <source>{0} cannot be read: it is no text in UTF-8.</source>
        <translation>{0} kann nicht gelesen werden: Es ist kein Text in UTF-8.</translation>
    </message>
    <message>
        <source>{0} cannot be read: {1}.</source>
        <translation>{0} kann nicht gelesen werden: {1}.</translation>
    </message>
    <message>
        <source>{0} cannot be used here.</source>
        <translation>{0} kann hier nicht verwendet werden.</translation>
    </message>
    <message>
        <source>{0} cannot be written: {1}.</source>
        <translation>{0} kann nicht geschrieben werden: {1}.</translation>
    </message>
    <message>
        <source>{0} changed on the hub while it was downloaded.</source>
        <translation>{0} hat sich auf dem Hub geändert, während es heruntergeladen wurde.</translation>
    </message>
    <message>
        <source>{0} could not be downloaded: {1}.</source>
        <translation>{0} konnte nicht heruntergeladen werden: {1}.</translation>
    </message>
    <message>
        <source>{0} does not exist.</source>
        <translation>{0} gibt es nicht.</translation>
    </message>
    <message>
        <source>{0} does not hold a JSON object.</source>
        <translation>{0} enthält kein JSON-Objekt.</translation>
    </message>
    <message>
        <source>{0} does not hold named tensors.</source>
        <translation>{0} enthält keine benannten Tensoren.</translation>
    </message>
    <message>
        <source>{0} does not list the head's files.</source>
        <translation>{0} führt die Dateien des Heads nicht auf.</translation>
    </message>
    <message>
        <source>{0} does not say what kind each token is.</source>
        <translation>{0} sagt nicht, von welcher Art jedes Token ist.</translation>
    </message>
    <message>
        <source>{0} has a token twice in its vocabulary.</source>
        <translation>{0} hat ein Token zweimal im Vokabular.</translation>
    </message>
    <message>
        <source>{0} has a tokenizer of kind {1}, which cannot be converted yet.</source>
        <translation>{0} hat einen Tokenizer der Art {1}, der sich noch nicht umwandeln lässt.</translation>
    </message>
    <message>
        <source>{0} has an unfinished download, which would be deleted with it.</source>
        <translation>Zu {0} gibt es einen unfertigen Download, der mit gelöscht würde.</translation>
    </message>
    <message>
        <source>{0} has an unknown tensor: {1}.</source>
        <translation>{0} hat einen unbekannten Tensor: {1}.</translation>
    </message>
    <message>
        <source>{0} has another vocabulary than the model. Choose a smaller model of the same family.</source>
        <translation>{0} hat ein anderes Vokabular als das Modell. Wählen Sie ein kleineres Modell derselben Familie.</translation>
    </message>
    <message>
        <source>{0} has neither {1} nor {2}.</source>
        <translation>{0} hat weder {1} noch {2}.</translation>
    </message>
    <message>
        <source>{0} has no file {1}.</source>
        <translation>{0} hat keine Datei {1}.</translation>
    </message>
    <message>
        <source>{0} has no setting “{1}”.</source>
        <translation>{0} hat keine Einstellung „{1}“.</translation>
    </message>
    <message>
        <source>{0} has no such {1}.</source>
        <translation>In {0} gibt es so etwas nicht: {1}.</translation>
    </message>
    <message>
        <source>{0} has no tokenizer.json.</source>
        <translation>{0} hat keine tokenizer.json.</translation>
    </message>
    <message>
        <source>{0} has no {1}, only {2}.</source>
        <translation>{0} hat kein {1}, nur {2}.</translation>
    </message>
    <message>
        <source>{0} holds more than tensors and was not opened: {1}</source>
        <translation>{0} enthält mehr als Tensoren und wurde nicht geöffnet: {1}</translation>
    </message>
    <message>
        <source>{0} holds no GGUF files.</source>
        <translation>{0} enthält keine GGUF-Dateien.</translation>
    </message>
    <message>
        <source>{0} holds no JSON object.</source>
        <translation>{0} enthält kein JSON-Objekt.</translation>
    </message>
    <message>
        <source>{0} holds no weights that Eyrie can read.</source>
        <translation>{0} enthält keine Gewichte, die Eyrie lesen kann.</translation>
    </message>
    <message>
        <source>{0} holds numbers of the kind {1}, which torch lacks.</source>
        <translation>{0} enthält Zahlen der Art {1}, die torch nicht kennt.</translation>
    </message>
    <message>
        <source>{0} holds something other than tensors, which is not opened.</source>
        <translation>{0} enthält etwas anderes als Tensoren, das nicht geöffnet wird.</translation>
    </message>
    <message>
        <source>{0} holds the tensor {1}, which {2} of this kind does not have.</source>
        <translation>{0} enthält den Tensor {1}, den {2} dieser Art nicht hat.</translation>
    </message>
    <message>
        <source>{0} holds {1} GGUF files.</source>
        <translation>{0} enthält {1} GGUF-Dateien.</translation>
    </message>
    <message>
        <source>{0} is a GGUF file of version {1}; versions 2 and 3 are known.</source>
        <translation>{0} ist eine GGUF-Datei der Version {1}; bekannt sind die Versionen 2 und 3.</translation>
    </message>
    <message>
        <source>{0} is a Git LFS pointer, not the weights themselves.</source>
        <translation>{0} ist ein Git-LFS-Verweis, nicht die Gewichte selbst.</translation>
    </message>
    <message>
        <source>{0} is a sentencepiece model of another kind than Llama's.</source>
        <translation>{0} ist ein sentencepiece-Modell anderer Art als das von Llama.</translation>
    </message>
    <message>
        <source>{0} is a {1} model; only {2} can be read from GGUF.</source>
        <translation>{0} ist ein Modell der Art {1}; aus GGUF lassen sich nur {2} lesen.</translation>
    </message>
    <message>
        <source>{0} is gated, and your account has not been let in.</source>
        <translation>{0} ist zugangsbeschränkt, und Ihr Konto wurde nicht zugelassen.</translation>
    </message>
    <message>
        <source>{0} is gated: the hub gives it only to people who are logged in.</source>
        <translation>{0} ist zugangsbeschränkt: Der Hub gibt es nur Angemeldeten.</translation>
    </message>
    <message>
        <source>{0} is missing in {1}.</source>
        <translation>{0} fehlt in {1}.</translation>
    </message>
    <message>
        <source>{0} is missing, and so is pytorch_model.bin.</source>
        <translation>{0} fehlt, und pytorch_model.bin ebenso.</translation>
    </message>
    <message>
        <source>{0} is missing.</source>
        <translation>{0} fehlt.</translation>
    </message>
    <message>
        <source>{0} is no GGUF file.</source>
        <translation>{0} ist keine GGUF-Datei.</translation>
    </message>
    <message>
        <source>{0} is no plain list of named tensors.</source>
        <translation>{0} ist keine einfache Liste benannter Tensoren.</translation>
    </message>
    <message>
        <source>{0} is no whole model: {1}.</source>
        <translation>{0} ist kein vollständiges Modell: {1}.</translation>
    </message>
    <message>
        <source>{0} is not a JSON object.</source>
        <translation>{0} ist kein JSON-Objekt.</translation>
    </message>
    <message>
        <source>{0} is not a complete PyTorch file: {1}</source>
        <translation>{0} ist keine vollständige PyTorch-Datei: {1}</translation>
    </message>
    <message>
        <source>{0} is not a complete safetensors file: {1}</source>
        <translation>{0} ist keine vollständige safetensors-Datei: {1}</translation>
    </message>
    <message>
        <source>{0} is not a complete safetensors file: {1}.</source>
        <translation>{0} ist keine vollständige safetensors-Datei: {1}.</translation>
    </message>
    <message>
        <source>{0} is not a safetensors file ({1} bytes).</source>
        <translation>{0} ist keine safetensors-Datei ({1} Byte).</translation>
    </message>
    <message>
        <source>{0} is not a sentencepiece model ({1}).</source>
        <translation>{0} ist kein sentencepiece-Modell ({1}).</translation>
    </message>
    <message>
        <source>{0} is not a usable GGUF file: {1}.</source>
        <translation>{0} ist keine brauchbare GGUF-Datei: {1}.</translation>
    </message>
    <message>
        <source>{0} is not supported.</source>
        <translation>{0} wird nicht unterstützt.</translation>
    </message>
    <message>
        <source>{0} is not valid JSON: {1}.</source>
        <translation>{0} ist kein gültiges JSON: {1}.</translation>
    </message>
    <message>
        <source>{0} is one of several parts, and not all of them are here.</source>
        <translation>{0} ist einer von mehreren Teilen, und nicht alle sind hier.</translation>
    </message>
    <message>
        <source>{0} is quantised as {1}, which cannot be converted.</source>
        <translation>{0} ist als {1} quantisiert, was sich nicht umwandeln lässt.</translation>
    </message>
    <message>
        <source>{0} is the largest that has room on the disk; {1} {2}.</source>
        <translation>{0} ist die größte, die auf dem Datenträger Platz hat; {1} {2}.</translation>
    </message>
    <message>
        <source>{0} is the smallest; not even it has room on the disk.</source>
        <translation>{0} ist die kleinste; nicht einmal sie hat auf dem Datenträger Platz.</translation>
    </message>
    <message>
        <source>{0} is the usual choice: small, and close to the original.</source>
        <translation>{0} ist die übliche Wahl: klein und nah am Original.</translation>
    </message>
    <message>
        <source>{0} is tried again.</source>
        <translation>{0} wird wieder versucht.</translation>
    </message>
    <message>
        <source>{0} is truncated or damaged: its header runs past the end at {1} bytes.</source>
        <translation>{0} ist abgeschnitten oder beschädigt: Der Dateikopf reicht über das Ende bei {1} Byte hinaus.</translation>
    </message>
    <message>
        <source>{0} is truncated: {1} bytes where {2} are expected.</source>
        <translation>{0} ist abgeschnitten: {1} Byte, wo {2} erwartet werden.</translation>
    </message>
    <message>
        <source>{0} is truncated: {1} bytes, and its header alone needs {2}.</source>
        <translation>{0} ist abgeschnitten: {1} Byte, und allein der Dateikopf braucht {2}.</translation>
    </message>
    <message>
        <source>{0} is {1}: {2} bytes where {3} are expected.</source>
        <translation>{0} ist {1}: {2} Byte, wo {3} erwartet werden.</translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}, which {2} says is in it.</source>
        <translation>{0} fehlt der Tensor {1}, der laut {2} darin steht.</translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}.</source>
        <translation>{0} fehlt der Tensor {1}.</translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}{2}.</source>
        <translation>{0} fehlt der Tensor {1}{2}.</translation>
    </message>
    <message>
        <source>{0} lists no tensors.</source>
        <translation>{0} führt keine Tensoren auf.</translation>
    </message>
    <message>
        <source>{0} names {1} as {2}, outside its vocabulary.</source>
        <translation>{0} nennt {1} als {2}, außerhalb seines Vokabulars.</translation>
    </message>
    <message>
        <source>{0} needs {1} GB of the {2} in {3}, and {4} of {5} GB are free{6}</source>
        <translation>{0} braucht {1} GB ({2}) in {3}, und {4} von {5} GB sind frei{6}</translation>
    </message>
    <message>
        <source>{0} of {1} arrived just as the hub has it, but is no whole safetensors file.</source>
        <translation>{0} von {1} kam so an, wie sie auf dem Hub liegt, ist aber keine vollständige safetensors-Datei.</translation>
    </message>
    <message>
        <source>{0} of {1} cannot be read: {2}.</source>
        <translation>{0} von {1} kann nicht gelesen werden: {2}.</translation>
    </message>
    <message>
        <source>{0} of {1} is no safetensors file: {2}.</source>
        <translation>{0} von {1} ist keine safetensors-Datei: {2}.</translation>
    </message>
    <message>
        <source>{0} points outside of its folder: {1}.</source>
        <translation>{0} zeigt aus seinem Ordner hinaus: {1}.</translation>
    </message>
    <message>
        <source>{0} runs through transformers.</source>
        <translation>{0} läuft über transformers.</translation>
    </message>
    <message>
        <source>{0} still needs {1}; the disk with {2} has {3} free, and {4} always stay free for other programs.</source>
        <translation>{0} braucht noch {1}; der Datenträger mit {2} hat {3} frei, und {4} bleiben immer für andere Programme frei.</translation>
    </message>
    <message>
        <source>{0} was deleted or moved while it was being downloaded.</source>
        <translation>{0} wurde während des Downloads gelöscht oder verschoben.</translation>
    </message>
    <message>
        <source>{0} {1}: it makes the reply slower here. It is tried again after {2} tokens.</source>
        <translation>{0} {1}: Das macht die Antwort hier langsamer. Nach {2} Token wird es wieder versucht.</translation>
    </message>
    <message>
        <source>{0}: config.json says {1} {2}, but the tensors have {3}.</source>
        <translation>{0}: config.json sagt {1} {2}, aber die Tensoren haben {3}.</translation>
    </message>
    <message>
        <source>{0}: d2t points to token {1}, outside the vocabulary of {2}.</source>
        <translation>{0}: d2t zeigt auf Token {1}, außerhalb des Vokabulars von {2}.</translation>
    </message>
    <message>
        <source>{0}: t2d does not mark the same tokens as d2t.</source>
        <translation>{0}: t2d markiert nicht dieselben Token wie d2t.</translation>
    </message>
    <message>
        <source>{0}: the draft tokens in d2t are not strictly increasing.</source>
        <translation>{0}: Die Entwurfstoken in d2t sind nicht streng aufsteigend.</translation>
    </message>
    <message>
        <source>{0}: {1} belongs to other RoPE settings than config.json's.</source>
        <translation>{0}: {1} gehört zu anderen RoPE-Einstellungen als denen in config.json.</translation>
    </message>
    <message>
        <source>{0}: {1} has shape {2}, expected {3}{4}.</source>
        <translation>{0}: {1} hat die Form {2}, erwartet {3}{4}.</translation>
    </message>
    <message>
        <source>{0}: {1} holds values that are not finite numbers.</source>
        <translation>{0}: {1} enthält Werte, die keine endlichen Zahlen sind.</translation>
    </message>
    <message>
        <source>{0}: {1} holds {2}, expected {3}.</source>
        <translation>{0}: {1} enthält {2}, erwartet {3}.</translation>
    </message>
    <message>
        <source>{0}: {1} is of the type {2}.</source>
        <translation>{0}: {1} ist vom Typ {2}.</translation>
    </message>
    <message>
        <source>{0}× published: {1}.</source>
        <translation>{0}× veröffentlicht: {1}.</translation>
    </message>
    <message>
        <source>{name} has no chat template of its own; the one its makers describe is used.</source>
        <translation>{name} hat keine eigene Chat-Vorlage; verwendet wird die, die seine Hersteller beschreiben.</translation>
    </message>
    <message>
        <source>{name} has no chat template: it may be a base model, which continues text and was not taught to answer. A plain User/Assistant form is used. For answers, choose an instruction-tuned model (its name often ends in -it, -Instruct or -Chat).</source>
        <translation>{name} hat keine Chat-Vorlage: Es ist vielleicht ein Basismodell, das Text fortsetzt und das Antworten nicht gelernt hat. Verwendet wird eine einfache Form mit User und Assistant. Wählen Sie für Antworten ein auf Anweisungen trainiertes Modell (sein Name endet oft auf -it, -Instruct oder -Chat).</translation>
    </message>
    <message>
        <source>“{0}” is no name of a repository.</source>
        <translation>„{0}“ ist kein Name eines Repositorys.</translation>
    </message>
    <message>
        <source>“{0}” is not a device.</source>
        <translation>„{0}“ ist kein Gerät.</translation>
    </message>
    <message>
        <source>“{0}” is not a weight format.</source>
        <translation>„{0}“ ist kein Gewichtsformat.</translation>
    </message>
</context>
</TS>
